"""PUT: an object, or the part of it that a subresource writes, as the body has it."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.write_request import (
    WriteRequest,
    check_name,
    check_named,
    check_namespace,
    dedup_owner_references,
    set_managed_fields,
)
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, object_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.etcd_limits import TooLargeError
from understudy.machinery.options import write_options
from understudy.machinery.types import Obj


async def update(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PUT of an object, or of a subresource that is the object itself (`UpdateResource`)."""
    check_named(scope)
    form_of(request, scope)
    request.check_body()
    options = write_options(request.query, request.method, request.release)
    write = WriteRequest(state, request, scope, options)

    def read(note: Callable[[Obj], object] = lambda obj: None) -> Obj:
        obj = request_body.read_object(request, scope.codec, options.field_validation)
        note(obj)
        check_namespace(obj, scope)
        check_name(obj, scope)
        write.default(obj)
        dedup_owner_references(obj, write.ctx)
        return obj

    first = [read(write.audit)]
    uid = str(first[0]["metadata"].get("uid", ""))

    async def transform(current: Obj | None) -> Obj:
        obj = first.pop() if first else read()
        write.update_managed_fields(write.live(current) if current else None, obj)
        return await write.admit(write.internal(obj), current)

    async def without_managed_fields(current: Obj | None) -> Obj:
        obj = read()
        set_managed_fields(obj, None)
        return await write.admit(write.internal(obj), current)

    target = write.target(scope.name)
    try:
        entry, created = await state.registry.update(target, transform, uid=uid, validate=write.validate)
    except TooLargeError:
        entry, created = await state.registry.update(target, without_managed_fields, uid=uid, validate=write.validate)
    return await object_response(request, scope, entry, 201 if created else 200)
