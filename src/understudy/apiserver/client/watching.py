"""Watches as iterators, for other threads than the server's, and the queue between the threads."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Self

from understudy.machinery.errors import status_error
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.types import NamedTuple, Obj

MOST = 1000  # events that may wait to be read; then the server waits, and in the end gives the watch up
Stop = Callable[[], None]  # ends a watch; may be called in any thread, and more than once


class Frames:
    """A queue of encoded events, None for the end, that says when who puts should wait.

    on_room  is called by the reader, in its thread, when there is room again
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = Lock()
        self._is_full = False
        self.on_room: Callable[[], None] = lambda: None

    def put(self, frame: bytes | None) -> bool:
        """Add an event; report whether so many wait that the next one should come after `on_room` only."""
        with self._lock:
            self._queue.put(frame)
            self._is_full = self._queue.qsize() >= MOST
            return self._is_full

    def get(self, timeout: float | None = None) -> bytes | None:
        """Return the next event; wait for it. Raises `queue.Empty` after some seconds."""
        frame = self._queue.get(timeout=timeout)
        with self._lock:
            has_room = self._is_full and self._queue.qsize() <= MOST // 2
            if has_room:
                self._is_full = False
        if has_room:
            self.on_room()
        return frame


class WatchEvent(NamedTuple):
    """An event of a watch.

    type    "ADDED", "MODIFIED" or "DELETED"
    object  as it is after the change; as it last was if it is deleted, with the version of its deletion
    """

    type: str
    object: Obj


class Watch(Iterator[WatchEvent]):
    """The events of a watch, one after the other: see `ObjectAccess.watch`.

    It ends when its time is up, when the server ends it, and when it is closed: by `close`, at the end of a `with`
    block, or when nothing refers to it any more. Raises StatusError where the server sends an error instead of an
    event, such as 410 for a resourceVersion that is too old.
    """

    def __init__(self, frames: Frames, stop: Stop, timeout: float | None) -> None:
        self._frames = frames
        self._end = None if timeout is None else time.monotonic() + timeout
        self._stop = weakref.finalize(self, stop)
        self._stop.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> WatchEvent:
        __tracebackhide__ = True
        frame = self._next_frame()
        if frame is None:
            self.close()
            raise StopIteration
        event = loads(frame)
        if event["type"] == "ERROR":
            self.close()
            raise status_error(event["object"].get("code", 500), event["object"])
        return WatchEvent(event["type"], event["object"])

    def close(self) -> None:
        """End the watch. The server is told, and nothing more is returned."""
        self._stop()

    def _next_frame(self) -> bytes | None:
        """Return the next encoded event, None at the end."""
        if not self._stop.alive:
            return None
        if self._end is None:
            return self._frames.get()
        left = self._end - time.monotonic()
        try:
            return self._frames.get(timeout=left) if left > 0 else None
        except Empty:
            return None
