"""DELETE of an object and of a collection: options, admission, the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from understudy.admission.chain import Operation
from understudy.apiserver.encoding.conversion import bare
from understudy.apiserver.endpoints.handlers import unsafe_delete
from understudy.apiserver.endpoints.handlers.get import shards_of
from understudy.apiserver.endpoints.handlers.request_body import open_body
from understudy.apiserver.endpoints.negotiation import PROTOBUF, body_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.lists import list_response
from understudy.apiserver.endpoints.responsewriters.writers import (
    form_of,
    object_response,
    value_response,
)
from understudy.apiserver.endpoints.scope import RequestScope, selector_of
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.corrupt_objects import unreadable_list
from understudy.apiserver.registry.delete import Deletion, ValidateDeletion
from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.options import (
    UNSAFE_DELETE,
    DeleteOptions,
    Query,
    boolean,
    delete_options_object,
    integer,
    list_options,
    read_delete_options,
    validated_delete_options,
)
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.serializer.protobuf import decode as decode_protobuf
from understudy.machinery.typeinfo.scheme import decode_delete_options
from understudy.machinery.types import Obj

ALL = 2**63 - 1


async def delete(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer DELETE of an object (`DeleteResource`): with the object, or with a Status once it is removed."""
    form_of(request, scope)
    options = await request.read(partial(delete_options, state, request))
    if reason := scope.behavior.protected.get(scope.name):
        raise errors.forbidden(scope.kind.group, scope.kind.resource, scope.name, reason)
    ctx = state.context(request, scope)
    if options.ignore_read_error:
        return value_response(request, scope, await unsafe_delete.delete(state, request, scope, ctx, options))
    deletion = Deletion(state.registry, scope.kind, ctx, _validate(state, scope, ctx, options))
    entry, removed = await deletion.run(scope.namespace, scope.name, options)
    accepted = not removed and options.orphan_dependents is False
    status = 202 if accepted else 200
    if removed and not scope.behavior.returns_deleted_object(scope.version):
        return value_response(request, scope, _success(scope, entry), status)
    return await object_response(request, scope, entry, status)


def _success(scope: RequestScope, entry: Entry) -> Obj:
    """Return the Status that says that an object was removed."""
    details: Obj = {"name": scope.name}
    if scope.kind.group:
        details["group"] = scope.kind.group
    details["kind"] = scope.kind.resource
    if uid := entry.value["metadata"].get("uid"):
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_collection(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Delete the objects of a list with the same parameters, and answer with that list (`DeleteCollection`)."""
    form_of(request, scope)
    listing = list_options(request.query, request.release, watch=False, watch_list=state.gates[features.WATCH_LIST])
    selector = selector_of(scope, listing)
    options = await request.read(partial(delete_options, state, request))
    if options.ignore_read_error:
        raise unsafe_delete.refused_for_collections(request.release)
    selector.shards = shards_of(state, listing)
    listing.limit = listing.limit or ALL  # reads as lists with a limit do: at exactly its resourceVersion
    page = await state.registry.list(scope.kind, scope.namespace, listing, selector, state.gates)
    ctx, turns = state.context(request, scope), Turns()
    for entry in page.entries:
        if turns.is_over:
            await turns.next()
        try:
            fields, own_options = entry.value["metadata"], replace(options)
        except UnreadableError as error:
            raise unreadable_list(scope.kind, page.entries, selector, 0, state.gates) or error from None
        deletion = Deletion(state.registry, scope.kind, ctx, _validate(state, scope, ctx, own_options, options))
        try:
            await deletion.run(fields.get("namespace", ""), fields["name"], own_options)
        except errors.StatusError as error:
            if not (error.reason == "NotFound" or (error.code == 404 and not error.reason)):  # be it a webhook's
                raise
    return await list_response(request, scope, page)


def _validate(
    state: ServerState, scope: RequestScope, ctx: Context, options: DeleteOptions, sent: DeleteOptions | None = None
) -> ValidateDeletion:
    """Return a function that asks admission about the deletion of an object (`AdmissionToValidateObjectDeleteFunc`).

    It sees the options as the deletion has left them, with the grace period that is granted; of a collection those that
    were `sent`, which each deletion copies.
    """
    admission = state.chain.of(scope.point(Operation.DELETE))
    if admission.is_empty:
        return admission.pass_over

    async def validate(old: Obj) -> None:
        if scope.behavior.begin_termination:
            options.uid = options.uid or old["metadata"]["uid"]
        attributes = scope.attributes(
            Operation.DELETE,
            ctx,
            old=old,
            options=delete_options_object(sent or options),
            dry_run=bool(options.dry_run),
        )
        await admission.admit(attributes, ctx)
        await admission.validate(attributes, ctx)

    return validate


def delete_options(state: ServerState, request: Request) -> DeleteOptions:
    """Return the options of a DELETE, from its body or else its query. Raises 400, 415, 422, 500."""
    options = read_delete_options(_sent(state, request)) if request.body else _of_query(request.query)
    if not unsafe_delete.is_served(state):
        options.ignore_read_error = None
    return validated_delete_options(options, request.release)


def _sent(state: ServerState, request: Request) -> Obj:
    """Return the DeleteOptions of a body, and note them for the audit log."""
    body = _body(state, request)
    if request.audit is not None:
        named = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", **bare(body)}
        request.audit.note_request({}, lambda: encode(named))
    return body


def _of_query(query: Query) -> DeleteOptions:
    if not query:
        return DeleteOptions()
    return DeleteOptions(
        grace_period=integer(query.get("gracePeriodSeconds")) if "gracePeriodSeconds" in query else None,
        dry_run=query.all("dryRun"),
        orphan_dependents=boolean(query, "orphanDependents"),
        propagation=query.get("propagationPolicy") if "propagationPolicy" in query else None,
        uid=query.get("uid") or None,
        version=query.get("resourceVersion") or None,
        ignore_read_error=boolean(query, UNSAFE_DELETE),
    )


_BAD_OPTIONS = ByRelease({V1_35: errors.bad_request, V1_31: errors.unknown_error})


def _body(state: ServerState, request: Request) -> Obj:
    """Return the DeleteOptions of a body. Raises 415, and 400 for a body that is something else: 500 before 1.35."""
    media = body_type(request.headers.get("Content-Type", ""), request.serves_cbor)
    try:
        if media == PROTOBUF:
            return decode_protobuf(request.body, state.schemas.kind("", "v1", "DeleteOptions"))
        body, (api_version, kind), _ = open_body(media, request.body, request.release)
        return decode_delete_options(state.schemas, api_version, kind, lambda struct: body.decode(struct)[0], body.text)
    except DecodeError as error:
        raise _BAD_OPTIONS[request.release](str(error)) from None
