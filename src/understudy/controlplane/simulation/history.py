"""The history of a simulation: one line of JSON for each write, in the order of their revisions, and for each incident.

{"revision":45,"time":"2030-01-01T00:00:07Z","type":"MODIFIED","key":"/registry/pods/default/p","changes":{…}}
{"revision":45,"time":"2030-01-01T00:00:08Z","type":"NODE_DOWN","node":"node-1"}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from understudy.apiserver.storage.interface import Event, Store
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, timestamp

EVERYTHING = "/registry/"


Note = Callable[..., None]  # is called with the type of an incident, and what more its line has


class Recorder:
    """Notes each write to a store when it is made, and what happens to nodes and drivers.

    write      is called with each line, which ends with a line feed
    incidents  what has happened besides writes
    """

    def __init__(self, store: Store, clock: Clock, write: Callable[[bytes], object]) -> None:
        self._clock = clock
        self._write = write
        self.incidents: list[Obj] = []
        self._store = store
        self._watch = store.watch(EVERYTHING, store.revision)
        self._watch.wake = self._take

    def stop(self) -> None:
        """Note nothing more: all end, in any order."""
        self._store.unwatch(self._watch)
        self._write = lambda line: None

    def note(self, type_: str, **details: str) -> None:
        """Note an incident."""
        time = timestamp(self._clock.now())
        incident = {"revision": self._store.revision, "time": time, "type": type_, **details}
        self.incidents.append(incident)
        self._write(orjson.dumps(incident) + b"\n")

    def _take(self) -> None:
        while self._watch.queue:
            self._write(_line(self._watch.take(), timestamp(self._clock.now())))


def _line(event: Event, time: str) -> bytes:
    entry, previous = event.entry, event.previous
    line: Obj = {"revision": event.revision, "time": time}
    if event.deleted:
        line |= {"type": "DELETED", "key": entry.key}
    elif previous is None:
        line |= {"type": "ADDED", "key": entry.key, "object": entry.value}
    else:
        line |= {"type": "MODIFIED", "key": entry.key, "changes": changes(previous.value, entry.value)}
    return orjson.dumps(line) + b"\n"


def changes(old: Obj, new: Obj) -> Obj:
    """Return the JSON merge patch (RFC 7386) that makes an object of another. Managed fields are left out."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name == "managedFields" or (name in old and before == value):
            continue
        patch[name] = changes(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch
