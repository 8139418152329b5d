"""Checks that watchers of a collection have seen what was written to it: each event once, in order, with its content.

A `Ledger` holds the writes that a server has acknowledged. A `Stream` is what one watcher has received: it begins with
a list, goes on over lost connections, and begins again with a new list after 410. The two are compared when the last
write has been seen by everybody.

    version      5        6        7        8        9
    ledger       ADDED a  ADDED b  MOD a    (DEL b)  MOD a     a deletion is acknowledged without its version
    stream       list at 5, a      MOD a    DEL b    MOD a     fails: ADDED b is missing

The versions of deletions are taken from one stream, the reference, which lists once and never loses its connection; so
a deletion that the reference has not seen fails as well. Some kinds, pods for example, are marked for deletion first,
by an update of its own that nobody is answered either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from scripts.common.comparing import Obj

EXPIRED = 410
OWN_OF_DELETION = ("resourceVersion", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
UNANSWERED = ("MARKED", "DELETED")  # events whose version no write is answered


class Event(NamedTuple):
    """An event as it is compared: the version, the type, the object's name and uid, and a hash of its content.

    The type is MARKED for an update that marks the object for deletion.
    """

    version: int
    type: str
    name: str
    uid: str
    content: int


def content_of(obj: Obj, without: tuple[str, ...] = ()) -> int:
    """Return a hash of an object without kind and API version, which lists leave out, and some of its metadata."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in without}
    fields = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")} | {"metadata": metadata}
    return hash(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))


def event_of(kind: str, obj: Obj) -> Event:
    """Return the event of a type for an object; a deletion has the content of the object before it."""
    metadata = obj["metadata"]
    if kind == "MODIFIED" and "deletionTimestamp" in metadata:
        kind = "MARKED"
    content = content_of(obj, OWN_OF_DELETION if kind in UNANSWERED else ())
    return Event(int(metadata["resourceVersion"]), kind, metadata["name"], metadata["uid"], content)


@dataclass
class Segment:
    """A list, and the events that a watcher received after it: the version and the objects of the list, then events.

    `until` is the last version up to which the watcher has been told everything.
    """

    start: int
    listed: dict[str, tuple[int, int]]  # by name: version and content
    until: int
    events: list[Event] = field(default_factory=list)


class Stream:
    """All that one watcher has received, list by list."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.segments: list[Segment] = []
        self.failures: list[str] = []
        self._expired = False

    @property
    def version(self) -> int:
        """Return the version from which to watch on; 0 if the collection must be listed."""
        return self.segments[-1].until if self.segments and not self._expired else 0

    def list(self, body: bytes) -> None:
        """Take a list of the collection."""
        listed = orjson.loads(body)
        version = int(listed["metadata"]["resourceVersion"])
        if self.segments and version < self.segments[-1].until:
            self.failures.append(f"a list at {version} after {self.segments[-1].until}")
        objects = {
            event.name: (event.version, event.content)
            for item in listed["items"]
            for event in [event_of("MODIFIED", item)]
        }
        self.segments.append(Segment(version, objects, version))
        self._expired = False

    def expire(self) -> None:
        """Take note that the version is too old."""
        self._expired = True

    def take(self, line: bytes) -> bool:
        """Take a line of the watch, and report whether there may be more."""
        segment = self.segments[-1]
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
        except (ValueError, LookupError, TypeError):
            self.failures.append(f"no event: {line[:200]!r}")
            return False
        if kind == "ERROR":
            if obj.get("code") != EXPIRED:
                self.failures.append(f"an error: {line[:200]!r}")
            self.expire()
            return False
        version = int(obj["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            if version < segment.until:
                self.failures.append(f"a bookmark of {version} after {segment.until}")
            segment.until = max(version, segment.until)
            return True
        if version <= segment.until:
            self.failures.append(f"{kind} {version} after {segment.until}")
        segment.until = max(version, segment.until)
        segment.events.append(event_of(kind, obj))
        return True


class Ledger:
    """The writes to one collection that a server has acknowledged.

    `marks` says that its objects are marked for deletion before they are deleted.
    """

    def __init__(self, *, marks: bool = False) -> None:
        self.failures: list[str] = []
        self._deletion = UNANSWERED if marks else UNANSWERED[1:]
        self._events: dict[int, Event] = {}  # of creations and updates
        self._deleted: dict[str, str] = {}  # uid: name
        self._bare: dict[int, int] = {}  # content without what a deletion changes, by version

    def wrote(self, is_new: bool, obj: Obj) -> None:
        """Take the object that a server has answered to a write.

        An update that changes nothing is answered with the version that the object had.
        """
        event = event_of("ADDED" if is_new else "MODIFIED", obj)
        known = self._events.setdefault(event.version, event)
        if known[2:] != event[2:]:
            self.failures.append(f"two writes have version {event.version}: {known} and {event}")
        self._bare[event.version] = content_of(obj, OWN_OF_DELETION)

    def deleted(self, name: str, uid: str) -> None:
        """Take the deletion of an object that a server has acknowledged."""
        if uid in self._deleted:
            self.failures.append(f"{name} {uid} was deleted twice")
        self._deleted[uid] = name

    def check(self, reference: Stream, streams: Iterable[Stream], until: int) -> Iterator[str]:
        """Yield the errors of the streams, the reference first, when all of them should have seen `until`."""
        yield from self.failures
        events = self._expected(reference)
        yield from self._check_deletions(reference)
        for stream in (reference, *streams):
            yield from (f"{stream.name}: {failure}" for failure in stream.failures)
            if not stream.segments:
                yield f"{stream.name}: has received nothing"
                continue
            if stream is reference and len(stream.segments) > 1:
                yield f"{stream.name}: the reference has listed {len(stream.segments)} times"
            last = stream.segments[-1]
            if last.until < until:
                yield f"{stream.name}: has seen everything up to {last.until}, not to {until}"
            for segment in stream.segments:
                yield from (f"{stream.name}: {failure}" for failure in _check_segment(segment, events))

    def _expected(self, reference: Stream) -> list[Event]:
        """Return all events in order, deletions at the versions that the reference has seen."""
        deletions = {event.version: event for event in _deletions(reference) if event.uid in self._deleted}
        return sorted({**deletions, **self._events}.values())

    def _check_deletions(self, reference: Stream) -> Iterator[str]:
        """Check that the reference has seen the events of each deletion once, with the last content of its object."""
        last = {event.uid: event for event in sorted(self._events.values())}
        missing = {(uid, kind): name for uid, name in self._deleted.items() for kind in self._deletion}
        for event in _deletions(reference):
            if missing.pop((event.uid, event.type), None) is None:
                yield f"{event} was not asked for, or seen before"
            elif (before := last.get(event.uid)) is None or before.version >= event.version:
                yield f"{event} comes before {before}"
            elif self._bare[before.version] != event.content:
                yield f"{event} has other content than {before}"
        for (uid, kind), name in missing.items():
            yield f"{kind} {name} {uid} was not seen"


def _deletions(stream: Stream) -> Iterator[Event]:
    """Yield the events of a stream whose versions no write is answered."""
    for segment in stream.segments:
        yield from (event for event in segment.events if event.type in UNANSWERED)


def _check_segment(segment: Segment, events: list[Event]) -> Iterator[str]:
    """Check one list and the events after it."""
    state: dict[str, tuple[int, int]] = {}
    for event in events:
        if event.version <= segment.start:
            state[event.name] = (event.version, event.content)
            if event.type == "DELETED":
                del state[event.name]
    if state != segment.listed:
        names = sorted(name for name in {*state, *segment.listed} if state.get(name) != segment.listed.get(name))
        yield f"the list at {segment.start} is wrong in {len(names)} objects: {names[:5]}"
    expected = [event for event in events if segment.start < event.version <= segment.until]
    if segment.events != expected:
        missing = sorted(set(expected) - set(segment.events))
        unexpected = sorted(set(segment.events) - set(expected))
        yield (
            f"since {segment.start}: {len(segment.events)} events, not {len(expected)}; "
            f"{len(missing)} missing {missing[:3]}, {len(unexpected)} unexpected {unexpected[:3]}"
        )
