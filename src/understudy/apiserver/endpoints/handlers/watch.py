"""Watches: they turn writes of the store into the frames that a client gets. Sockets are the server's business.

The event of a write depends on whether the selector matches the object before and after it:

    before    after     sent
    -         matches   ADDED
    matches   matches   MODIFIED
    matches   -         DELETED, the object as it was, at the version of the write
    -         -         nothing

A frame is encoded once per revision, version and form; all watchers of that form send the same bytes.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial as partial_function
from math import inf
from random import random

from understudy.apiserver.encoding.encoded import (
    encoded,
    encoded_cbor,
    encoded_protobuf,
    internal,
    is_loaded,
    left,
    load,
    matches,
    versioned,
)
from understudy.apiserver.endpoints.negotiation import CBOR, JSON, PROTOBUF, Output
from understudy.apiserver.endpoints.request import Load, Request, WatchProgress
from understudy.apiserver.endpoints.responsewriters.tables import (
    INITIAL_EVENTS_END,
    PARTIAL,
    PARTIAL_LIST,
    partial,
    partial_list,
    table,
)
from understudy.apiserver.endpoints.responsewriters.writers import cbor_struct_of, struct_of, takes_long
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry import resource_version as freshness
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.registry.list import FEW, cached_revision
from understudy.apiserver.serving.monitoring import EVENT_BYTES
from understudy.apiserver.storage.interface import (
    ALL_WRITES,
    CompactedError,
    Entry,
    Event,
    Interest,
    UnreadableError,
    Watch,
)
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.kinds.declarations.watch_cache import ASKED_AGAIN, GIVEN_UP
from understudy.machinery import errors
from understudy.machinery.options import ListOptions, resource_version
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.json import encode
from understudy.machinery.serializer.protobuf_wire import watch_frame
from understudy.machinery.typeinfo.scheme import not_registered, scheme_name
from understudy.machinery.types import Obj

BOOKMARK_PERIOD = 60.0  # seconds between the bookmarks of a quiet watch
LAST_BOOKMARK = 2.0  # seconds before the end for the last one
SHORTEST = 1800.0  # seconds that a watch without `timeoutSeconds` lasts at least

_SMALL_EVENT = EVENT_BYTES[0]
_OF_OBJECTS = ("ADDED", "MODIFIED", "DELETED")
SENT_AT_ONCE = 256 << 10  # bytes of events after which the next ones wait until these are sent

# Whether the bookmark that ends the initial events carries an empty list in the watch's own form (KEP-3157).
SENDS_BLUEPRINT = ByRelease({V1_31: False, V1_32: True, V1_34: False})


class EventSource:
    """The frames of one watch.

    take()  returns the frames to send now
    wake    is called when there may be more frames: by the watch of the store, and by `_woken`
    ended   is set once no frames will follow
    due     is the time (monotonic, seconds) at which take() has something to do even without a write: that of the next
            bookmark, of the next try to convert an object or of the end; 0 if there is something to look at now
    must_load
            is set when it is time to convert the object of the next event, or to make its frame: see `begin_load`
    """

    def __init__(
        self,
        state: ServerState,
        request: Request,
        scope: RequestScope,
        options: ListOptions,
        selector: Selector,
        form: Output,
    ) -> None:
        self._store = state.registry.store
        self._state = state
        self._clock = state.clock
        self._request = request
        self._scope = scope
        self._options = options
        self._selector = selector
        self._wants_all = selector.everything
        shards = selector.shards
        self._counted = shards if shards and state.registry.has_cache(scope.kind) else None  # by the watch cache
        self._form = form
        self._watch: Watch | None = None
        self._out: list[bytes] = []
        self._out_size = 0  # bytes
        self._events = state.watch_metrics.events(scope.kind, scope.version)
        self._sent = 0  # bytes
        self._initial: deque[Entry] = deque()  # that are stored where the watch begins, and not sent yet
        self._ends_initial_events = False
        codec = scope.kind.codec(scope.version)
        self._keys = {type_: ("event", form.media_type, type_, codec) for type_ in _OF_OBJECTS}  # of frames
        self._columns_sent = False
        self._make: Callable[[], bytes] | None = None  # the next frame, which takes long
        self._is_making = False
        self._made = b""  # it, once it is made
        self._cache = scope.kind.watch_cache
        self._failing_since = 0.0  # when the webhook failed first, in monotonic seconds; 0.0 if it did not
        self._asked_again_at = 0.0  # when it is asked again
        self._seen = 0  # the revision that the client has seen
        self._is_idle = False  # whether nothing but a write, or the time `due`, gives it anything to do
        self.ended = self.must_load = False
        self.due = 0.0
        self._wake: Callable[[], None] = lambda: None
        now = self._begun = self._clock.monotonic()
        lasts = SHORTEST * (1 + random()) if not options.timeout else float(options.timeout)
        self._end = now + lasts
        self._bookmark_at = min(now + BOOKMARK_PERIOD, self._end - LAST_BOOKMARK) if options.bookmarks else self._end
        if options.bookmarks and lasts <= LAST_BOOKMARK:
            self._bookmark_at = self._end

    async def start(self) -> None:
        """Begin the watch, with the initial events if it has any.

        Raises 500 for a version that is no number, 429 if a webhook has failed to convert what is stored for long.
        """
        options, kind = self._options, self._scope.kind
        version = resource_version(options.version)
        prefix = prefix_of(kind, self._scope.namespace)
        initial = options.initial_events
        if initial is None:
            initial = version == 0
        if self._cache is not None:
            self._cache.check_ready()
            self._cache.readers.add(self._woken)
        try:
            after = version
            if initial:
                await freshness.wait_for(self._store, options.version, self._state.registry.wait_seconds)
                if self._store.count(prefix) > FEW:
                    await Turns().next()  # many clients that begin at once have what is stored read one after the other
                after = await cached_revision(self._store, kind, prefix, options.version)
            after = after or self._store.revision
            self._watch = self._store.watch(prefix, after, interest=self._interest())
        except CompactedError as error:
            self.fail(errors.expired(f"too old resource version: {version} ({error.revision})"))
            return
        except errors.StatusError as error:
            self.fail(error)
            return
        self._watch.wake = self._wake
        if self._counted is not None:
            self._state.watch_metrics.count_sharded_start(kind)
        self._seen = after
        if initial:
            await self._send_initial_events(prefix)

    def _interest(self) -> Interest:
        """Return the writes to be told of: all of them if a webhook may have to convert an object first, or those of
        other shards are counted."""
        if self._wants_all or self._cache is not None or self._counted is not None:
            return ALL_WRITES
        return self._state.interests.of(self._selector, self._scope.kind)

    async def _send_initial_events(self, prefix: str) -> None:
        """Send what is stored at the revision at which the watch begins."""
        kind, options = self._scope.kind, self._options
        stored = await self._store.range(prefix, revision=self._seen)
        try:
            load(stored.entries, kind)
        except errors.StatusError:  # of a webhook: the watch cache of the real server does not get so far
            cached = self._cache.revision if self._cache is not None else 0
            self.fail(freshness.too_large(self._seen, cached, freshness.RETRY_AFTER))
            return
        self._initial.extend(stored.entries)
        asked_for = options.initial_events or self._state.gates[features.WATCH_LIST]
        self._ends_initial_events = options.bookmarks and asked_for
        self._take_initial_events(Turns())

    def _take_initial_events(self, turns: Turns) -> None:
        """Send what was stored where the watch begins, until the turn is over or enough is to be sent at once."""
        while self._initial and not self._is_blocked:
            entry = self._initial.popleft()
            if self._matches(entry):
                self._send("ADDED", entry)
            if self._out_size >= SENT_AT_ONCE or turns.is_over:
                break
        if self._initial or self._make is not None:
            return
        if self._ends_initial_events:
            self._ends_initial_events = False
            self._bookmark(self._seen, initial_events_end=True)
            if self._request.monitored is not None:
                seconds = self._clock.monotonic() - self._begun
                self._state.watch_metrics.observe_list(self._request.monitored.labels, seconds)
            self._request.watch_list_complete()

    @property
    def wake(self) -> Callable[[], None]:
        """Return the function that is called when there may be more frames."""
        return self._wake

    @wake.setter
    def wake(self, wake: Callable[[], None]) -> None:
        """Set that function here and in the watch of the store, which calls it for each write."""
        self._wake = wake
        if self._watch is not None:
            self._watch.wake = wake

    def _woken(self) -> None:
        """Pass a wake-up of the watch cache on to whoever has set `wake` by now."""
        self._wake()

    def close(self) -> None:
        """End the watch, and release that of the store."""
        if self._watch is not None:
            self._store.unwatch(self._watch)
            self._watch = None
            if self._counted is not None:
                self._state.watch_metrics.count_sharded_end(self._scope.kind)
        if self._cache is not None:
            self._cache.readers.discard(self._woken)
        self.ended = True

    @property
    def sent(self) -> int:
        """Return the bytes of the events that were taken."""
        return self._sent

    @property
    def progress(self) -> WatchProgress:
        """Return the place that the watch has come to."""
        queued = 0 if self._watch is None else len(self._watch.queue)
        return WatchProgress(self._request, self._begun, self._seen, len(self._initial) + queued)

    def take(self) -> list[bytes]:
        """Return the frames to send now, one per event."""
        watch = self._watch
        if watch is not None:
            try:
                # Too slow, or cut off with the watch cache: the client watches again from the version that it has seen.
                if watch.overflown or (self._cache is not None and self._cache.problem):
                    self.close()
                elif self._is_idle and len(watch.queue) == 1 and not watch.ended:
                    self._on_write(watch.take())  # as mostly; what is due follows when there is nothing to take
                    if self._make is not None:
                        self._take_from(watch)
                else:
                    self._take_from(watch)
            except UnreadableError:  # as the watch cache ends when it meets one
                self.close()
        out, size, self._out, self._out_size = self._out, self._out_size, [], 0
        self._sent += size
        self._events.sum += size
        return out

    def _take_from(self, watch: Watch) -> None:
        """Send what is due of the initial events, the writes, and the end or a bookmark."""
        queue, self._is_idle = watch.queue, False
        if self._made:
            self._append(self._made)
            self._make, self._is_making, self._made = None, False, b""
        if queue or self._initial or self._ends_initial_events:
            turns = Turns()
            self._take_initial_events(turns)
            # The rest waits where its bytes are counted.
            while queue and not self._initial and self._out_size < SENT_AT_ONCE and not self._is_blocked:
                self._on_write(watch.take())
                if turns.is_over:
                    break
        self.due, self.must_load = 0.0, False
        is_blocked = (self._make is not None or self._cache is not None) and self._is_blocked
        if self.ended or ((queue or self._initial) and not is_blocked):
            return
        if watch.ended and self._make is None:
            self.close()
        else:
            self._on_time(is_blocked)

    @property
    def _is_blocked(self) -> bool:
        """Report whether the next event waits for its frame, or for a webhook to convert its object."""
        if self._make is not None:
            return True
        if self._cache is None or self._watch is None:
            return False
        return not all(is_loaded(entry, self._scope.kind) for entry in self._next_entries())

    @property
    def _load_at(self) -> float:
        """Return the time, in monotonic seconds, at which to make the frame of the next event, or to convert its
        object, if the watch cache no longer holds it converted. Newer ones are left to the cache."""
        if self._make is not None:
            return inf if self._is_making else 0.0
        assert self._cache is not None
        assert self._watch is not None
        is_cached = bool(self._initial) or self._watch.queue[0].revision <= self._cache.revision
        return self._asked_again_at if is_cached else inf

    def begin_load(self) -> Load:
        """Return the work that the next event waits for: to make its frame, or to convert its object.

        The latter raises 500 if the webhook has failed for too long; before, it is asked again after a while.
        """
        if (make := self._make) is not None:
            self._is_making = True
            return Load(lambda: self._keep_made(make()), self._request)
        self._asked_again_at, entries = inf, list(self._initial) or self._next_entries()
        return Load(lambda: self._load(entries))

    def _keep_made(self, frame: bytes) -> None:
        self._made = frame

    def _load(self, entries: list[Entry]) -> None:
        try:
            load(entries, self._scope.kind)
        except errors.StatusError:
            now = self._clock.monotonic()
            self._failing_since = self._failing_since or now
            if now - self._failing_since > GIVEN_UP:
                raise
            self._asked_again_at = now + ASKED_AGAIN
        else:
            self._failing_since = self._asked_again_at = 0.0

    def _next_entries(self) -> list[Entry]:
        """Return the entries that decide about the next event."""
        watch = self._watch
        if self._initial:
            return [self._initial[0]]
        if watch is None or not watch.queue:
            return []
        event = watch.queue[0]
        return [event.entry, *([event.previous] if event.previous and not self._wants_all else ())]

    def _on_time(self, is_blocked: bool) -> None:
        """End the watch, or send a bookmark, if it is time; say when the next thing is due."""
        now = self._clock.monotonic()
        if now < self._bookmark_at and not is_blocked:
            self.due, self._is_idle = self._bookmark_at, self._cache is None
            return
        if now >= self._end:
            self.close()
        elif now >= self._bookmark_at and not is_blocked:
            last = self._end - LAST_BOOKMARK
            self._bookmark_at = min(now + BOOKMARK_PERIOD, last) if now < last else self._end
            if self._store.revision > self._seen:
                self._bookmark(self._store.revision)
        next_step = self._load_at if is_blocked and not self.ended else self._bookmark_at
        self.due, self.must_load = min(self._end, next_step), is_blocked and now >= next_step

    def _on_write(self, event: Event) -> None:
        """Send the event of a write, if the selector matches the object before or after it."""
        _, entry, previous = event
        revision = entry.revision
        if revision <= self._seen:
            return
        self._seen = revision
        if self._wants_all:
            self._send("DELETED" if event.deleted else "MODIFIED" if previous else "ADDED", entry)
            return
        matched = previous is not None and self._matches(previous)
        matches = not event.deleted and self._matches(entry)
        if matches:
            self._send("MODIFIED" if matched else "ADDED", entry)
        elif matched and previous is not None:
            gone = entry if event.deleted else left(entry, previous, self._scope.kind)
            self._send("DELETED", gone, previous.packed_size)

    def _matches(self, entry: Entry) -> bool:
        """Report whether the selector matches an entry, and count it if it is in another shard."""
        kind = self._scope.kind
        is_matched = matches(self._selector, entry, kind)
        if self._counted is not None and not (is_matched or self._counted.matches(entry.value["metadata"])):
            self._state.watch_metrics.count_filtered(kind)
        return is_matched

    def _send(self, type_: str, entry: Entry, size: int = 0) -> None:
        """Send an event, later if it takes long to make its frame. `size` is that of the object if it is not stored."""
        form = self._form
        if not form.target:
            frame = entry.forms.get(self._keys[type_])
            if frame is not None:
                self._append(frame)
                return
        elif self._wants_lists():
            return
        make = partial_function(self._frame_of, type_, entry, columns=not self._columns_sent)
        self._columns_sent = True
        if takes_long(size or entry.packed_size, form) and not self._is_encoded(entry):
            self._make = make
        else:
            self._append(make())

    def _wants_lists(self) -> bool:
        """End a watch whose events would be lists, without an error: the object of none is one."""
        if self._form.target != PARTIAL_LIST:
            return False
        self.close()
        return True

    def _is_encoded(self, entry: Entry) -> bool:
        """Report whether there is hardly anything to do for the frame of an object in JSON."""
        form = self._form
        return form.media_type == JSON and not form.target and entry.made(self._scope.codec) is not None

    def _frame_of(self, type_: str, entry: Entry, *, columns: bool) -> bytes:
        """Return the frame of an event, that of other watchers but in CBOR, whose order of fields differs each time."""
        kind, version = self._scope.kind, self._scope.version
        if self._form.target:
            return self._in_form(type_, versioned(entry, kind, version), internal(entry, kind), columns=columns)
        key = self._keys[type_]
        frame: bytes | None = entry.forms.get(key)
        if frame is None:
            make, encoding = _FRAMES[key[1]]
            frame = make(type_, encoding(entry, kind, version))
            if make is not _cbor_frame:
                entry.cache[key] = frame
        return frame

    def _append(self, frame: bytes) -> None:
        """Add a frame to those that take() returns."""
        size = len(frame)
        self._out.append(frame)
        self._out_size += size
        self._events.counts[0 if size <= _SMALL_EVENT else bisect_left(EVENT_BYTES, size)] += 1

    def _in_form(self, type_: str, obj: Obj, internal: Obj | None = None, *, columns: bool = False) -> bytes:
        """Return the frame of an event in the form that the client asked for. `internal` is None for errors."""
        form = self._form
        if form.target == "Table" and internal is not None:
            kind, version = self._scope.kind, self._scope.version
            obj = table(kind, version, [internal], versioned=[obj], request=self._request, form=form, columns=columns)
        elif form.target and internal is not None:
            obj = partial(self._scope.codec.metadata(obj), form.target_version)
        if form.media_type == CBOR:
            return _cbor_frame(type_, cbor.encode_item(obj, cbor_struct_of(self._state.schemas, obj)))
        if form.media_type != JSON:
            return watch_frame(type_, protobuf.encode(obj, struct_of(self._state.schemas, obj)))
        return _frame(type_, encode(obj))

    def _bookmark(self, revision: int, *, initial_events_end: bool = False) -> None:
        """Send a bookmark of a revision, which may mark the end of the initial events (KEP-3157)."""
        self._seen = revision
        scope = self._scope
        obj = scope.codec.empty()
        scope.kind.behavior.fill_empty(obj)
        obj["metadata"] = {"resourceVersion": str(self._seen), **obj["metadata"]}
        if scope.kind.custom is not None and self._form.target == PARTIAL:
            obj["metadata"] |= self._state.schemas.uncreated_metadata  # as Go writes its type
        if initial_events_end:
            notes = {INITIAL_EVENTS_END: "true"}
            if SENDS_BLUEPRINT[self._state.release.version]:
                if self._form.target == PARTIAL_LIST:
                    self.fail(self._no_blueprint())
                    return
                notes["kubernetes.io/initial-events-list-blueprint"] = self._blueprint()
            obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **notes}
        obj = scope.codec.in_order(obj)
        if self._wants_lists():
            return
        columns, self._columns_sent = not self._columns_sent, True
        self._append(self._in_form("BOOKMARK", obj, {"metadata": obj["metadata"]}, columns=columns))

    def _blueprint(self) -> str:
        """Return an empty list in the form of the watch, in base64: clients fill it with the initial events."""
        scope, form = self._scope, self._form
        empty = partial_list((), form.target_version, {}) if form.target else scope.codec.empty_list()
        if form.media_type == CBOR:
            return base64.b64encode(cbor.encode(empty, None)).decode()
        if form.media_type == JSON:
            return base64.b64encode(encode(empty) + b"\n").decode()
        return base64.b64encode(protobuf.encode(empty, struct_of(self._state.schemas, empty))).decode()

    def _no_blueprint(self) -> errors.StatusError:
        """Return the 500 for a watch of lists: the list that a blueprint would be encoded as is of no known kind."""
        kind, version = self._scope.kind, self._scope.version
        listed = kind.gvk(version)._replace(kind=f"{kind.name}List")
        scheme = scheme_name(kind.release, "internalversion")
        if kind.custom is not None:
            return errors.StatusError(500, "InternalError", str(not_registered(listed, scheme)))
        text = f'no kind is registered for the type {self._state.schemas.kind(*listed).go} in scheme "{scheme}"'
        return errors.StatusError(500, "InternalError", text)

    def fail(self, error: errors.StatusError) -> None:
        """Send an error as the last event, since the response has begun; end the watch."""
        self._append(self._in_form("ERROR", error.status()))
        self.close()


def _frame(type_: str, obj: bytes) -> bytes:
    """Return the JSON frame of an event."""
    return b'{"type":"' + type_.encode() + b'","object":' + obj + b"}\n"


def _cbor_frame(type_: str, obj: bytes) -> bytes:
    """Return an event in CBOR, whose object has the tag of a body, too."""
    pairs = cbor.encode_item({"type": type_, "object": None}, None).removesuffix(cbor.NULL)
    before, moved = cbor.turn(pairs)
    return b"".join((cbor.PREFIX, before, cbor.PREFIX, cbor.shuffled(obj), moved))


# How an event is made, and its object, by media type.
_FRAMES: Mapping[str, tuple[Callable[[str, bytes], bytes], Callable[[Entry, Kind, str], bytes]]] = {
    JSON: (_frame, encoded),
    PROTOBUF: (watch_frame, encoded_protobuf),
    CBOR: (_cbor_frame, encoded_cbor),
}
