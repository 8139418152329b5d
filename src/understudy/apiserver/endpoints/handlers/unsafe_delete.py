"""DELETE of an object that can no longer be read: without preconditions, finalizers and admission.

The option `ignoreStoreReadErrorWithClusterBreakingPotential` asks for it, behind the gate
`AllowUnsafeMalformedObjectDeletion`. Upstream: `corruptObjectDeleter`, as it is since 1.37.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from understudy.apiserver.encoding.encoded import internal, read_again
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.storage.interface import Entry, RevisionConflictError
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import META, UNSAFE_DELETE, DeleteOptions
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path, invalid

VERB = "unsafe-delete-ignore-read-errors"


def is_served(state: ServerState) -> bool:
    """Report whether objects can be deleted in this way; if not, the option is ignored."""
    gate = features.ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION
    return state.release.version >= V1_37 and state.gates[gate]


def refused_for_collections(version: Version) -> errors.StatusError:
    """Return the 422 for DELETE of a collection."""
    text = "is not allowed with DELETECOLLECTION, try again after removing the option"
    return errors.invalid(META, "DeleteOptions", "", [invalid(Path(UNSAFE_DELETE), True, text)], version)


async def delete(
    state: ServerState, request: Request, scope: RequestScope, ctx: Context, options: DeleteOptions
) -> Obj:
    """Remove an object that cannot be read; return the Status that says so. Raises 403, 404, 409."""
    _authorize(request, scope, ctx)
    details = {"name": scope.name, "kind": scope.kind.name}
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details, "code": 200}
    while True:
        entry = await state.registry.get(scope.kind, scope.namespace, scope.name)
        if _is_readable(entry, scope.kind):
            raise _refused(scope, entry.key)
        if options.dry_run:
            return done
        with suppress(RevisionConflictError):  # another request has written it: look again
            await state.registry.remove(scope.kind, entry, ctx)
            return done


def _authorize(request: Request, scope: RequestScope, ctx: Context) -> None:
    decision = ctx.authorizer.authorize(request.user, replace(request.info, verb=VERB))
    if decision.error or not decision.allowed:
        detail = f"not permitted to do {go_quote(VERB)}, reason: {decision.reason}"
        if decision.error:
            detail = f"error while checking permission for {go_quote(VERB)}, {decision.error}"
        raise errors.forbidden(scope.kind.group, scope.kind.resource, scope.name, detail)


def _is_readable(entry: Entry, kind: Kind) -> bool:
    try:
        internal(read_again(entry, kind), kind)
    except errors.StatusError:
        return False
    return True


def _refused(scope: RequestScope, key: str) -> errors.StatusError:
    """Return the 409 for an object that can be read."""
    text = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        "unsafe deletion is not allowed because the object is decodable from storage"
    )
    return errors.conflict(scope.kind.group, scope.kind.resource, scope.name, text)
