"""Watches that meet a fault: they end early, or leave bookmarks out."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.endpoints.request import Load, WatchProgress, WatchSource
from understudy.apiserver.endpoints.responsewriters.tables import INITIAL_EVENTS_END
from understudy.machinery.errors import StatusError

_TYPE_END = 20  # bytes of a frame, JSON or protobuf, in which its type stands, and no part of the object
_LAST_INITIAL = INITIAL_EVENTS_END.encode()


def is_bookmark(frame: bytes) -> bool:
    """Report whether the frame of an event, in JSON or protobuf, is a bookmark."""
    return b"BOOKMARK" in frame[:_TYPE_END]


class _Watch:
    """A watch whose events come from another source."""

    def __init__(self, source: WatchSource) -> None:
        self._source = source

    @property
    def wake(self) -> Callable[[], None]:
        """Return the function that is called when there may be more to take."""
        return self._source.wake

    @wake.setter
    def wake(self, wake: Callable[[], None]) -> None:
        self._source.wake = wake

    @property
    def ended(self) -> bool:
        """Report whether no frames follow."""
        return self._source.ended

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._source.ended = ended

    @property
    def sent(self) -> int:
        return self._source.sent

    @property
    def progress(self) -> WatchProgress:
        return self._source.progress

    @property
    def due(self) -> float:
        return self._source.due

    @property
    def must_load(self) -> bool:
        return self._source.must_load

    def begin_load(self) -> Load:
        return self._source.begin_load()

    def fail(self, error: StatusError) -> None:
        self._source.fail(error)

    def close(self) -> None:
        self._source.close()


class CutWatch(_Watch):
    """A watch that ends after some events: silently, with an error, or by a reset of the connection.

    fire  is called when it does
    """

    def __init__(
        self,
        source: WatchSource,
        events: int,
        fire: Callable[[], None],
        error: StatusError | None = None,
        *,
        resets: bool = False,
    ) -> None:
        super().__init__(source)
        self._left = events
        self._fire = fire
        self._error = error
        self._resets = resets
        self._is_cut = False

    def take(self) -> list[bytes]:
        """Return the frames to send now. Raises ConnectionResetError when the connection is to be reset."""
        frames = self._next()
        if self._is_cut and self._resets and not frames:
            raise ConnectionResetError("a fault cuts this watch")
        return frames

    def _next(self) -> list[bytes]:
        if self._is_cut:
            return []
        frames: list[bytes] = []
        for frame in self._source.take() if self._left else ():
            frames.append(frame)
            self._left -= not is_bookmark(frame)
            if not self._left:
                break
        return frames if self._left else frames + self._cut()

    def _cut(self) -> list[bytes]:
        """End the watch; return its last frames."""
        self._is_cut = True
        self._fire()
        if self._error is None:
            self._source.close()
            return []
        self._source.take()  # what is not sent any more
        self._source.fail(self._error)
        return self._source.take()[-1:]


class WatchWithoutBookmarks(_Watch):
    """A watch without bookmarks but the one that ends initial events; `fire` is called for each that is left out."""

    def __init__(self, source: WatchSource, fire: Callable[[], None]) -> None:
        super().__init__(source)
        self._fire = fire

    def take(self) -> list[bytes]:
        """Return the frames to send now."""
        frames = []
        for frame in self._source.take():
            if is_bookmark(frame) and _LAST_INITIAL not in frame:
                self._fire()
            else:
                frames.append(frame)
        return frames
