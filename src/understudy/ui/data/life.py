"""Tells the life of an object: its revisions, as far as the store knows them, for a reader who may get the object.

    revision   write          told
    2          compacted
    5          update a       {"revision": 5, "object": …}      the oldest: a was as it is here at revision 4, too
    7          delete a       {"revision": 7, "deleted": true, "object": as it was last}

Deletions are told, and objects of the same name that were there before or after.
"""

from __future__ import annotations

from copy import copy

import orjson

from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.endpoints import routing
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.server.filters.authorization import with_authorization
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.storage.turns import Turns
from understudy.machinery import errors
from understudy.machinery.options import Query
from understudy.machinery.types import Obj
from understudy.ui.data import writers
from understudy.ui.data.revisions import as_read, past_writes

MOST_BYTES = 4 << 20  # of the objects that are told; older revisions are left out


async def document(state: ServerState, log: RequestLog, request: Request) -> Obj:
    """Return {"since", "versions": [{"revision", "deleted", "object", "request"}, …]} of the object at a path, the
    oldest first.

    since    the revision from which on they are all there: what is written then or before is no creation
    request  what has written the revision (see `writers`), null if that is not known

    Raises 400 for a path of no object, and what GET of the path raises: 403, 404 for a kind that there is not, 405.
    """
    scope, store = _asked_for(state, request), state.registry.store
    key = key_of(scope.kind, scope.namespace, scope.name)
    events, requests = past_writes(store, key), writers.by_revision(log, key)
    first = events[0].previous if events else await store.get(key)
    past = [*([(first, False)] if first is not None else ()), *((event.entry, event.deleted) for event in events)]
    versions, since, size, turns = list[Obj](), max(store.compacted, 1), 0, Turns()
    for entry, deleted in reversed(past):
        body = as_read(entry, scope.kind, scope.version)
        size += len(body)
        if size > MOST_BYTES and versions:
            since = versions[-1]["revision"]
            break
        version = {"revision": entry.revision, "deleted": deleted, "object": orjson.Fragment(body)}
        versions.append({**version, "request": requests.get(entry.revision)})
        if turns.is_over:
            await turns.next()
    return {"since": since, "versions": versions[::-1]}


def _asked_for(state: ServerState, request: Request) -> RequestScope:
    """Return the scope of the object that is asked for, which the user may get. Raises 400, 403, 404, 405."""
    asked = copy(request)
    asked.info = _info_of(request.query.get("path"))
    with_authorization(state.authorizer, state.permissions, AuthorizationMetrics())(asked)
    route = routing.find(state.serving, "GET", asked.info)
    if route is None or route.scope.kind.virtual:
        raise errors.no_such_resource()
    return route.scope


def _info_of(path: str) -> RequestInfo:
    """Return the attributes of a GET of the path of an object. Raises 400."""
    try:
        info = request_info("GET", path, Query(""))
    except RequestInfoError as why:
        raise errors.bad_request(str(why)) from None
    if not info.is_resource or info.verb != "get" or not info.name or info.subresource:
        raise errors.bad_request("want the path of an object")
    return info
