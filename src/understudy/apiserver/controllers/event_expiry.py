"""Deletes events an hour (`--event-ttl`) after they were last written, as etcd does when their lease ends.

Nobody is asked whether they may be deleted. Source: `TTLFunc` in k8s.io/kubernetes/pkg/registry/core/event/storage.
"""

from __future__ import annotations

from contextlib import suppress

from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.storage.interface import Entry, RevisionConflictError

PREFIX = "/registry/events/"


class EventExpiry(Controller[str]):
    """Deletes events whose time is over; keys are those of the store."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._store = context.state.registry.store
        self._clock = context.state.clock
        self._seconds = context.state.event_ttl
        self._ends: dict[str, float] = {}  # when events expire, in monotonic seconds
        if self._seconds and not self._store.expires:
            informers.of(PREFIX).add_handler(self._written, lambda _, entry: self._written(entry), self._deleted)

    def _written(self, entry: Entry) -> None:
        self._ends[entry.key] = self._clock.monotonic() + self._seconds
        self.queue.add_after(entry.key, self._seconds)

    def _deleted(self, entry: Entry) -> None:
        self._ends.pop(entry.key, None)

    async def sync(self, key: str) -> None:
        """Delete an event whose time is over; wait for the end of one that was written again meanwhile."""
        if (end := self._ends.get(key)) is None:
            return
        if (left := end - self._clock.monotonic()) > 0:
            self.queue.add_after(key, left)
        elif (entry := self._store.peek(key)) is not None:
            with suppress(RevisionConflictError):  # it was written just now
                await self._store.delete(key, entry.revision)
