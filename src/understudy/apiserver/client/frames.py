"""The events of a watch on their way from the server's thread to that of who reads them."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock

MOST = 1000  # events that may wait to be read; then the server waits, and in the end gives the watch up


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
