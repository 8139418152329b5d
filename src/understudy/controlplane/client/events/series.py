"""Events of events.k8s.io/v1, as the scheduler writes them: told once, then as a series. Upstream: `tools/events`.

    async with SeriesRecorder(client, "default-scheduler") as events:
        events.event(PODS, pod, "Normal", "Scheduled", "Binding", "Successfully assigned default/p to n1")

The same kind of event again makes the first one a series of 2 by a patch; from then on it is counted here, and the
count is written when nothing more has happened for six minutes.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Self

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import create_event, event_name
from understudy.controlplane.client.events.sender import EventSender
from understudy.controlplane.client.resources import EVENTS_V1, Resource, object_reference
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import micro_timestamp
from understudy.machinery.util.timers import sleep

FINISH_SECONDS = 360.0  # without another event, after which a series ends


class SeriesRecorder:
    """Records events of one controller, `default-scheduler` for example. It is an asynchronous context manager.

    clock  returns seconds since 1970; that of the client by default
    """

    def __init__(self, client: APIClient, controller: str, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._controller = controller
        self._instance = f"{controller}-{platform.node()}"
        self._clock = clock or (lambda: client.clock.now())
        self._sender = EventSender(client.clock)
        self._cache: dict[Hashable, tuple[Obj, float]] = {}  # each event, and when it happened last
        self._finisher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._sender.__aenter__()
        self._finisher = asyncio.create_task(self._finish_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._finisher is not None:
            self._finisher.cancel()
            with suppress(asyncio.CancelledError):
                await self._finisher
        await self._sender.__aexit__()

    def event(
        self,
        resource: Resource,
        obj: Obj,
        event_type: str,
        reason: str,
        action: str,
        note: str,
        related: Obj | None = None,
    ) -> None:
        """Record an event about an object.

        event_type  "Normal" or "Warning"
        action      what the controller did: "Scheduling", "Binding"
        related     the reference of a second object
        """
        about = object_reference(resource, obj)
        now = self._clock()
        key = (event_type, action, reason, *about.values(), *(related or {}).values())
        if key in self._cache:
            self._count(key, now)
            return
        event = {
            "metadata": {"name": event_name(about["name"], now), "namespace": about.get("namespace", "default")},
            "eventTime": micro_timestamp(now),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": about,
            **({"related": related} if related else {}),
            "note": note,
            "type": event_type,
        }
        self._cache[key] = event, now
        self._sender.send(lambda: self._create(event))

    async def flush(self) -> None:
        """Wait until all events are written."""
        await self._sender.flush()

    def _count(self, key: Hashable, now: float) -> None:
        """Count one more event; the second one is written immediately."""
        event, _ = self._cache[key]
        count = event.get("series", {"count": 1})["count"] + 1
        counted = {**event, "series": {"count": count, "lastObservedTime": micro_timestamp(now)}}
        self._cache[key] = counted, now
        if count == 2:
            self._sender.send(lambda: self._write_series(counted))

    def finish_series(self) -> None:
        """Forget events that have not happened for a while, and write the count of those that are a series."""
        before = self._clock() - FINISH_SECONDS
        for key, (event, last) in list(self._cache.items()):
            if last < before:
                del self._cache[key]
                if "series" in event:
                    self._sender.send(lambda event=event: self._write_series(event))  # type: ignore[misc]

    async def _finish_forever(self) -> None:
        while True:
            await sleep(self._client.clock, FINISH_SECONDS)
            self.finish_series()

    async def _create(self, event: Obj) -> None:
        await create_event(self._client, EVENTS_V1, event)

    async def _write_series(self, event: Obj) -> None:
        metadata, changes = event["metadata"], {"series": event["series"]}
        try:
            await self._client.patch(
                EVENTS_V1, metadata["name"], changes, metadata["namespace"], content_type=STRATEGIC_PATCH
            )
        except StatusError as why:
            if why.code != 404:
                raise
            await self._create(event)
