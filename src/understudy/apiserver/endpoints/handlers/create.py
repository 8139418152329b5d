"""POST: new objects, and the bodies of subresources that are of another kind."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.encoding import encoded
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.write_request import (
    WriteRequest,
    check_namespace,
    dedup_owner_references,
    set_managed_fields,
)
from understudy.apiserver.endpoints.negotiation import body_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, object_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.etcd_limits import TooLargeError
from understudy.apiserver.registry.rest import wipe_object_meta_system_fields
from understudy.machinery.options import WriteOptions, write_options
from understudy.machinery.types import Obj


async def create(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer POST to a collection: store a new object (`CreateResource`)."""
    form = form_of(request, scope)
    body_type(request.headers.get("Content-Type", ""), request.serves_cbor)
    request.check_body()
    options = write_options(request.query, request.method, request.release)
    write = WriteRequest(state, request, scope, options)
    obj = request_body.read_object(request, scope.codec, options.field_validation)
    write.audit(obj)
    check_namespace(obj, scope)
    write.default(obj)
    wipe_object_meta_system_fields(obj, {} if scope.kind.custom else state.schemas.uncreated_metadata)
    dedup_owner_references(obj, write.ctx)
    write.update_managed_fields(None, obj)
    internal = write.internal(obj)
    admitted = await write.admit(internal, None)
    try:
        entry = await state.registry.create(write.target(""), admitted, write.validate)
    except TooLargeError:
        set_managed_fields(admitted, None)
        entry = await state.registry.create(write.target(""), admitted, write.validate)
    if admitted is internal:
        encoded.keep_new(entry, scope.kind)
    return await object_response(request, scope, entry, 201, form)


async def read_part(
    state: ServerState, request: Request, scope: RequestScope, options: WriteOptions, check: Callable[[Obj], object]
) -> Obj:
    """Return the body of a subresource such as eviction, as admission leaves it. Raises 400, 403, 404.

    `check` raises the errors of the body; validating admission comes after it.
    """
    write = WriteRequest(state, request, scope, options)

    def read() -> Obj:
        sent = request_body.read(request, scope.decoder, options.field_validation)
        write.audit_part(sent)
        return sent.obj

    return await write.admit_new_part(read, check)
