"""Tells what the server was asked, for a reader: of each request the row of a table, and of one what it has changed.

A request is told to those who may read what it is about: get its object, list its collection. The values of Secrets
are told to nobody, nor the tokens of reviews.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson

from understudy.apiserver.endpoints.negotiation import JSON, PROTOBUF
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.server.filters.request_log.log import Change, Note, RequestLog
from understudy.apiserver.storage.interface import CompactedError, Entry, Event, Store
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.serializer.protobuf import decode, read_protobuf_type_meta
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj, split_api_version
from understudy.ui.data.kinds import stored_kinds
from understudy.ui.data.masks import LEFT_OUT, mask_secret
from understudy.ui.data.readers import Reader, everything, read, read_of
from understudy.ui.data.revisions import as_read, past_writes
from understudy.ui.data.sent_texts import sent_path, short, shown_path

MOST_BYTES = 2 << 20  # of requests that a report tells in full
MOST_ROWS = 1_000  # in one answer: of more only the newest
_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_SECRETS, _TOKEN_REVIEWS = ("", "secrets"), ("authentication.k8s.io", "tokenreviews")


async def rows(log: RequestLog, may: Reader, after: int = 0) -> Obj:
    """Return {"rows", "last", "oldest", "withheld"}: the requests after the one with a number, the oldest first.

    last    the number of the newest request, for the next question
    oldest  that of the oldest request that is kept
    withheld
            how many of the newer requests the reader may not see
    """
    newer, shown, turns = log.notes(after), list[Note](), Turns()
    for note in newer:
        if _is_told(note, may):
            shown.append(note)
        if turns.is_over:
            await turns.next()
    listed = [_row(note, log.components) for note in shown[-MOST_ROWS:]]
    return {"rows": listed, "last": log.last, "oldest": log.oldest, "withheld": len(newer) - len(shown)}


async def document(state: ServerState, log: RequestLog) -> Obj:
    """Return all that `rows` tells to a reader who may read everything, with "details" of the newest by numbers."""
    listed, details, size, turns = await rows(log, everything), dict[str, Obj](), 0, Turns()
    for row in reversed(listed["rows"]):
        each = detail(state, log, everything, row["number"])
        size += len(orjson.dumps(each))
        if size > MOST_BYTES:
            break
        details[str(row["number"])] = each
        if turns.is_over:
            await turns.next()
    return {**listed, "details": details}


def detail(state: ServerState, log: RequestLog, may: Reader, number: int) -> Obj:
    """Return {"path", "message", "contentType", "body", "change"} of a request.

    contentType  of the body as it is told; "" without one
    change       {"before", "after"} of the object that it has written, null where there was none; null for a request
                 that has written none that the reader may get; {"forgotten": true} if the store does not know it now

    Raises 404 for a request that is not kept, or that the reader may not see.
    """
    note = next(iter(log.notes(number - 1)), None)
    if note is None or note.number != number or not _is_told(note, may):
        raise errors.StatusError(404, "NotFound", "the request is kept no longer, or about what you may not read")
    media, body = _body(note, state)
    return {
        "path": sent_path(note.info.path, note.query),
        "message": note.logged().message,
        "contentType": media,
        "body": body,
        "change": None if note.change is None else _change(state, note, note.change, may),
    }


def _is_told(note: Note, may: Reader) -> bool:
    """Report whether a reader may see a request."""
    return may(read_of(note.info, note.change.key if note.change else ""))


def _body(note: Note, state: ServerState) -> tuple[str, str]:
    """Return the body of a request with its media type, protobuf as JSON; without what is secret."""
    body, media, named = note.body, note.content_type, (note.info.group, note.info.resource)
    if not body:
        return "", ""
    if named == _TOKEN_REVIEWS:
        return media, LEFT_OUT
    value: Any = None
    if media.startswith(PROTOBUF):
        media, value = JSON, _of_protobuf(body, state.schemas)
        body = encode(value)
    if named == _SECRETS:
        with suppress(ValueError):
            value = orjson.loads(body)
        return media, encode(mask_secret(value)).decode() if isinstance(value, dict) else LEFT_OUT
    return media, body.decode(errors="replace")


def _of_protobuf(body: bytes, schemas: Schemas) -> Any:
    """Return the object of a body in protobuf; a text about it if it cannot be read."""
    try:
        api_version, kind = read_protobuf_type_meta(body)
        named = (*split_api_version(api_version), kind)
        if schemas.has_kind(*named):
            return {"apiVersion": api_version, "kind": kind, **decode(body, schemas.kind(*named))}
    except DecodeError:
        return f"{len(body)} bytes that are no protobuf"
    return f"{len(body)} bytes of protobuf"


def _change(state: ServerState, note: Note, change: Change, may: Reader) -> Obj | None:
    """Return the object that a request has written, before and after, if the reader may get it."""
    kind = next((kind for kind in stored_kinds(state) if change.key.startswith(prefix_of(kind))), None)
    if kind is None:
        return None
    namespace, _, name = change.key.removeprefix(prefix_of(kind)).rpartition("/")
    if not may(read(kind, "get", namespace, name)):
        return None
    events = _writes(state.registry.store, change)
    if not events:
        return {"forgotten": True}
    version = note.info.version if note.info.version in kind.versions else kind.versions[0]
    after = None if events[-1].deleted else events[-1].entry
    return {"before": _told(events[0].previous, kind, version), "after": _told(after, kind, version)}


def _writes(store: Store, change: Change) -> list[Event]:
    """Return the writes of a request, none if the store has forgotten one of them."""
    try:
        writes = [event for event in past_writes(store, change.key, change.first - 1) if event.revision <= change.last]
    except CompactedError:
        return []
    return writes if writes and (writes[0].revision, writes[-1].revision) == (change.first, change.last) else []


def _told(entry: Entry | None, kind: Kind, version: str) -> Obj | None:
    """Return the object of an entry, without what is secret."""
    if entry is None:
        return None
    obj: Obj = orjson.loads(as_read(entry, kind, version))
    return mask_secret(obj) if (kind.group, kind.resource) == _SECRETS else obj


def _row(note: Note, components: set[str]) -> Obj:
    logged = note.logged()
    name = logged.name or (note.change.key.rpartition("/")[2] if note.change else "")
    return {
        "number": note.number,
        "time": note.time,
        "verb": logged.verb,
        "method": _METHODS.get(logged.verb, "GET") if note.info.is_resource else logged.verb.upper(),
        "path": shown_path(logged.path, note.query),
        "group": logged.group,
        "resource": logged.resource,
        "subresource": logged.subresource,
        "namespace": logged.namespace,
        "name": short(name),
        "user": short(logged.user),
        "agent": short(logged.user_agent),
        "isComponent": logged.user in components,
        "status": logged.status,
        "seconds": logged.seconds,
        "refusedBy": logged.refused_by,
        "message": short(logged.message),
    }
