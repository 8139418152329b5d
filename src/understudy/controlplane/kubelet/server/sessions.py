"""The sessions of clients with pods, such as commands that run there. They end with the pod, or with the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Sessions:
    """The sessions that are open, by the uid of their pod."""

    def __init__(self) -> None:
        self._open: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def begin(self, uid: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when the session is to end."""
        ended = asyncio.Event()
        self._open.setdefault(uid, set()).add(ended)
        try:
            yield ended
        finally:
            self._open[uid].discard(ended)
            if not self._open[uid]:
                del self._open[uid]

    def end(self, uid: str) -> None:
        """End the sessions with a pod."""
        for ended in self._open.get(uid, ()):
            ended.set()

    def end_all(self) -> None:
        """End all sessions."""
        for uid in self._open:
            self.end(uid)
