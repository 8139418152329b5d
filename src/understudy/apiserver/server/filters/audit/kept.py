"""Keeps audit events in memory, for tests."""

from __future__ import annotations

from collections import deque

from understudy.apiserver.permissions.audit.event import NotedEvent
from understudy.apiserver.permissions.audit.metrics import log_error
from understudy.machinery.types import Obj

KEPT = 10_000  # events


class KeptEvents:
    """The last events. Nothing is kept unless it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self._kept: deque[NotedEvent] = deque(maxlen=KEPT)

    def put(self, event: NotedEvent) -> None:
        """Keep an event."""
        if self.on:
            self._kept.append(event)

    def clear(self) -> None:
        """Forget all events."""
        self._kept.clear()

    def events(self) -> list[Obj]:
        """Return the events that are kept, in their order."""
        from understudy.apiserver.server.filters.audit.backends import readable  # only servers that log need it

        return [event for noted in list(self._kept) if (event := readable(noted, "kept", log_error)) is not None]
