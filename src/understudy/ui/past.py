"""The past in a report: the revisions that others have replaced, newest first, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from understudy.apiserver.client.loopback import TABLE
from understudy.apiserver.endpoints import routing
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.endpoints.responsewriters.lists import list_response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.registry.list import Page
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.storage.interface import Entry, Event
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.options import Query
from understudy.machinery.types import Obj
from understudy.ui.data import writers
from understudy.ui.data.kinds import path_of, stored_kinds
from understudy.ui.data.revisions import past_writes

EVERYTHING = "/registry/"
MOST_BYTES = 8 << 20  # of the revisions that are told (see `Event.size`)


async def document(state: ServerState, log: RequestLog) -> Obj:
    """Return {"since", "tables", "requests"}: what was stored from a revision on, and is not any more.

    since     the oldest revision that is known as a whole
    requests  what has written revisions, by them (see `writers`)
    tables    by GROUP/RESOURCE {"rows", "deleted"}: rows with objects, as tables of the API have them, and deletions as
              [revision, namespace, name]. Kinds that a webhook converts have none.
    """
    store = state.registry.store
    since, events = _with_room(past_writes(store, EVERYTHING), max(store.compacted, 1))
    kinds = {prefix_of(kind): kind for kind in stored_kinds(state)}
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        prefix = _prefix(event.entry.key, kinds)
        if prefix:
            by_kind.setdefault(prefix, []).append(event)
    tables = {}
    for prefix, own in by_kind.items():
        kind = kinds[prefix]
        if kind.custom is None or not kind.custom.calls_webhook:
            tables[f"{kind.group}/{kind.resource}"] = await _table(state, kind, own)
    requests = {str(revision): request for revision, request in writers.by_revision(log).items()}
    return {"since": since, "tables": tables, "requests": requests}


def _with_room(events: list[Event], since: int) -> tuple[int, list[Event]]:
    """Return the newest of all writes since a revision for which there is room, and the revision since which they are
    all there."""
    size = 0
    for at in reversed(range(len(events))):
        size += events[at].size
        if size > MOST_BYTES:
            return events[at].revision, events[at + 1 :]
    return since, events


def _prefix(key: str, known: Iterable[str]) -> str:
    """Return the prefix of a key that is known, "" if none is."""
    end = len(EVERYTHING)
    while end := key.find("/", end) + 1:
        if key[:end] in known:
            return key[:end]
    return ""


async def _table(state: ServerState, kind: Kind, events: list[Event]) -> Obj:
    """Return the rows of what writes have replaced, and their deletions."""
    replaced = [event.previous for event in events if event.previous is not None]
    deleted = [event for event in events if event.deleted]
    names = [event.entry.value["metadata"] for event in deleted]
    return {
        "rows": await _rows(state, kind, sorted(replaced, key=lambda entry: (entry.key, entry.revision))),
        "deleted": [
            [event.revision, metadata.get("namespace", ""), metadata["name"]]
            for event, metadata in zip(deleted, names, strict=True)
        ],
    }


async def _rows(state: ServerState, kind: Kind, entries: list[Entry]) -> list[Obj]:
    """Return the rows of entries with their objects, as a list of the API has them."""
    path = path_of(kind)
    route = routing.find(state.serving, "GET", request_info("GET", path, Query("")))
    assert route is not None
    query = Query("includeObject=Object")
    request = Request("GET", path, {"Accept": TABLE}, b"", query, state.release.version, clock=state.clock)
    answer = await list_response(request, route.scope, Page(entries, 0, "", None))
    rows = orjson.loads(answer.body)["rows"] or ()
    return [{"cells": row["cells"], "object": row["object"]} for row in rows]
