"""Events of the core group, as controllers write them: told once, then counted. Upstream: `client-go/tools/record`.

    async with EventRecorder(client, "resource_claim") as events:
        events.event(PODS, pod, "Warning", "FailedResourceClaimCreation", "…")

The same event again raises the count of the first by a patch. From the tenth event on that differs from others by its
message only, within ten minutes, they become one with "(combined from similar events): …". An object has 25 events at
once, and then one in five minutes; others are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Self, TypeVar

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.sender import EventSender
from understudy.controlplane.client.resources import EVENTS, Resource, object_reference
from understudy.machinery.errors import StatusError, ignore_not_found
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.clock import timestamp
from understudy.machinery.util.rate_limit import TokenBucket

AGGREGATE_FROM, AGGREGATE_SECONDS = 10, 600.0
BURST, PER_SECOND = 25, 1 / 300
NAMES_TRIED = 20  # of an event, before it is dropped
CACHED = 4096  # entries in each of the recorder's memories; the oldest are forgotten. Upstream: `maxLruCacheEntries`

Clock = Callable[[], float]
T = TypeVar("T")


@dataclass
class _Similar:
    """The messages of events that differ by nothing else."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


class EventRecorder:
    """Records events of one component, the source of its events. It is an asynchronous context manager.

    clock  returns seconds since 1970; that of the client by default
    host   the name of its node, "" if it does not belong to one
    """

    def __init__(self, client: APIClient, component: str, clock: Clock | None = None, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock or (lambda: client.clock.now())
        self._sender = EventSender(client.clock)
        self._similar: dict[Hashable, _Similar] = {}
        self._budgets: dict[Hashable, TokenBucket] = {}
        self._recorded: dict[Hashable, Obj] = {}

    async def __aenter__(self) -> Self:
        await self._sender.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sender.__aexit__()

    def event(self, resource: Resource, obj: Obj, event_type: str, reason: str, message: str) -> None:
        """Record an event about an object. `event_type` is "Normal" or "Warning"."""
        event = self._new(object_reference(resource, obj), event_type, reason, message)
        self._sender.send(lambda: self._record(event))

    async def flush(self) -> None:
        """Wait until all events are written."""
        await self._sender.flush()

    def _new(self, about: Obj, event_type: str, reason: str, message: str) -> Obj:
        now = self._clock()
        return {
            "metadata": {"name": event_name(about["name"], now), "namespace": about.get("namespace", "default")},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
            "type": event_type,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    async def _record(self, event: Obj) -> None:
        """Create an event, or count it. Upstream: `recordToSink`."""
        event, key = self._aggregated(event)
        known = self._recorded.get(key)
        if known is not None:
            event = {**event, "metadata": known["metadata"], "firstTimestamp": known["firstTimestamp"]}
            event["count"] = known["count"] + 1
        _remember(self._recorded, key, event)
        if not _entry(self._budgets, _about(event), lambda: TokenBucket(PER_SECOND, BURST, self._clock)).try_accept():
            return
        _remember(self._recorded, key, await self._write(event))

    async def _write(self, event: Obj) -> Obj:
        metadata = event["metadata"]
        if event["count"] > 1:
            changes = {field: event[field] for field in ("count", "lastTimestamp", "message")}
            with ignore_not_found():
                return await self._client.patch(
                    EVENTS, metadata["name"], changes, metadata["namespace"], content_type=STRATEGIC_PATCH
                )
        metadata = {field: metadata[field] for field in ("name", "namespace")}
        return await create_event(self._client, EVENTS, {**event, "metadata": metadata})

    def _aggregated(self, event: Obj) -> tuple[Obj, Hashable]:
        """Return an event, or the one that stands for it and similar ones, and its key. Upstream: `EventAggregate`."""
        now = self._clock()
        group = (*_about(event), event["reason"])
        similar = _entry(self._similar, group, _Similar)
        if now - similar.last > AGGREGATE_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages.add(event["message"])
        if len(similar.messages) < AGGREGATE_FROM:
            return event, (*group, event["message"])
        similar.messages.pop()
        message = f"(combined from similar events): {event['message']}"
        return {**event, "message": message, "reportingComponent": ""}, group


def event_name(name: str, now: float) -> str:
    """Return the name of a new event about an object: the object's and the time, in hexadecimal nanoseconds.

    now  seconds since 1970
    """
    return f"{name}.{int(now * 1_000_000_000):x}"


async def create_event(client: APIClient, resource: Resource, event: Obj) -> Obj:
    """Create an event; return it as stored. A name that is taken, while a clock stands still, gets the time of the next
    nanosecond. Raises StatusError, ConnectionError."""
    for _ in range(NAMES_TRIED):
        try:
            return await client.create(resource, event)
        except StatusError as why:
            if why.reason != "AlreadyExists":
                raise
        about, _, nanoseconds = event["metadata"]["name"].rpartition(".")
        event = {**event, "metadata": {**event["metadata"], "name": f"{about}.{int(nanoseconds, 16) + 1:x}"}}
    return await client.create(resource, event)


def _about(event: Obj) -> tuple[str, ...]:
    """Return the key of events that are counted together: source, object and type. Upstream: `getSpamKey`."""
    about = event["involvedObject"]
    fields = ("kind", "namespace", "name", "uid", "apiVersion")
    source = event["source"]
    return (source["component"], source.get("host", ""), *(about.get(field, "") for field in fields), event["type"])


def _entry(memory: dict[Hashable, T], key: Hashable, new: Callable[[], T]) -> T:
    """Return an entry of a memory, a new one if it has none."""
    value = memory.get(key)
    if value is None:
        value = new()
    _remember(memory, key, value)
    return value


def _remember(memory: dict[Hashable, T], key: Hashable, value: T) -> None:
    """Make an entry the newest of a memory, and forget the oldest if there are too many."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > CACHED:
        del memory[next(iter(memory))]
