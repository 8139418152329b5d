"""Deletes the objects of a definition that is being deleted, and then lets go of it (upstream: `CRDFinalizer`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.apiserver.client.loopback import Client
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.apiserver.encoding.encoded import is_loaded
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.delete import Deletion
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.apiextensions.definitions import CLEANUP
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError, ignore_not_found
from understudy.machinery.options import DeleteOptions
from understudy.machinery.types import Obj, condition_is_true, with_condition

if TYPE_CHECKING:
    from understudy.apiserver.extensions.kinds import Defined

_FAILED = "InstanceDeletionFailed"
POLL_SECONDS = 0.05  # between two looks at objects that finalizers hold; kube-apiserver looks every five seconds


async def finalize(state: ServerState, client: Client, path: str, definition: Obj) -> None:
    """Finalize a deleted definition with the path `path`, once it has no objects any more.

    Raises TryAgainError while finalizers hold objects, or as long as these are not converted.
    """
    if CLEANUP not in (definition["metadata"].get("finalizers") or ()):
        return
    if not _has_failed(definition):
        in_progress = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        definition = await _update(state, client, path, definition, *in_progress)
    done = ("False", "NeverEstablished", "resource was never established")
    defined = state.serving.definitions.get(definition["metadata"]["name"])
    if defined is not None and condition_is_true(definition, "Established"):
        if why := _list_error(defined.storage):
            await _update(state, client, path, definition, "True", _FAILED, f"could not list instances: {why}")
            raise TryAgainError("objects cannot be converted", POLL_SECONDS)
        await _delete_instances(state, defined)
        done = ("False", "InstanceDeletionCompleted", "removed all instances")
    await _update(state, client, path, _without_finalizer(definition), *done)


def _has_failed(definition: Obj) -> bool:
    """Report whether the objects of a definition could not be listed before. That stays to be seen while it is tried
    again; kube-apiserver tries less and less often."""
    conditions = definition["status"].get("conditions") or ()
    return any((item["type"], item.get("reason")) == ("Terminating", _FAILED) for item in conditions)


async def _update(
    state: ServerState, client: Client, path: str, definition: Obj, status: str, reason: str, message: str
) -> Obj:
    """Store a definition with a condition Terminating, unless it has it already; return it as stored."""
    condition = {"type": "Terminating", "status": status, "reason": reason, "message": message}
    conditions = with_condition(definition["status"].get("conditions") or (), condition, state.timestamp())
    if conditions == definition["status"].get("conditions"):
        return definition
    return await client.update(
        f"{path}/status", {**definition, "status": {**definition["status"], "conditions": conditions}}
    )


def _without_finalizer(definition: Obj) -> Obj:
    """Return a definition without the finalizer that its objects are deleted for."""
    metadata = definition["metadata"]
    finalizers = [name for name in metadata["finalizers"] if name != CLEANUP]
    return {**definition, "metadata": {**metadata, "finalizers": finalizers}}


def _list_error(kind: Kind) -> str:
    """Return the text of the error if a webhook fails to convert the objects of a kind, "" if it does not."""
    try:
        if kind.watch_cache is not None:
            kind.watch_cache.check_ready()
    except StatusError as error:
        return error.message
    return ""


async def _delete_instances(state: ServerState, defined: Defined) -> None:
    """Delete the objects of a definition. Raises TryAgainError if some stay, or are still to be converted."""
    kind, store = defined.storage, state.registry.store
    ctx = Context(state.release.version, state.gates, kind.versions[0], now=state.timestamp())
    deletion = Deletion(state.registry, kind, ctx, reads_again=False)
    entries = store.scan(prefix_of(kind))
    if kind.watch_cache is not None and not all(is_loaded(entry, kind) for entry in entries):
        raise TryAgainError("objects are not converted yet", POLL_SECONDS)
    turns = Turns()
    await turns.next()
    for entry in entries:
        metadata = entry.value["metadata"]
        if "deletionTimestamp" not in metadata:
            with ignore_not_found():
                await deletion.run(metadata.get("namespace", ""), metadata["name"], DeleteOptions())
        if turns.is_over:
            await turns.next()
    if store.count(prefix_of(kind)):
        raise TryAgainError("finalizers hold objects", POLL_SECONDS)
