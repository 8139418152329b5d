"""Hands audit events to the plugins that write or send them, in threads, at once or gathered.

    Blocking    an answer waits until its events are written
    Buffered    events are gathered, and lost if too many wait

Upstream: k8s.io/apiserver/plugin/pkg/audit/buffered and truncate, and `AuditBatchOptions`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import Empty, Full, Queue
from typing import Protocol

import orjson

from understudy.apiserver.permissions.audit.event import NotedEvent
from understudy.apiserver.permissions.audit.policy import Level
from understudy.apiserver.server.filters.audit.batching import BATCH, BLOCKING_STRICT, BackendOptions, Batching
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import Obj
from understudy.machinery.util.rate_limit import TokenBucket

TRUNCATED = "audit.k8s.io/truncated"
SENDERS = 32  # threads of a plugin that may be slow
MOST_AT_ONCE = 1000  # events of requests that wait, which are written together
POLL = 0.1  # seconds after which a thread looks whether it is to end


Report = Callable[[str, str, int], None]  # takes the name of a plugin, why events were lost, and how many


class Plugin(Protocol):
    """Writes or sends events."""

    name: str

    def process(self, events: Sequence[Obj]) -> None:
        """Write events. Raises Exception if they are not written."""

    def close(self) -> None:
        """End; events that are being sent are tried once more at most."""


class Backend(Protocol):
    """Takes the events of requests. Upstream: `audit.Backend`."""

    def put(self, event: NotedEvent) -> Future[bool] | None:
        """Take an event; the result is whether it was written, None if nobody has to wait for that."""

    def close(self) -> None:
        """Write what waits to be written."""


def backend_of(plugin: Plugin, options: BackendOptions, report: Report, *, at_once: bool) -> Backend:
    """Return the backend of a plugin.

    report   takes its errors
    at_once  whether several threads may call the plugin, as for one that waits for others
    """
    if options.mode == BATCH:
        return Buffered(plugin, options, report, at_once=at_once)
    return Blocking(plugin, options, report, at_once=at_once)


def readable(noted: NotedEvent, name: str, report: Report) -> Obj | None:
    """Return an event, None for one with a patch that is no JSON: the real server loses it as well, before 1.37."""
    try:
        return noted.event()
    except orjson.JSONDecodeError as why:
        report(name, str(why), 1)
        return None


def fitting(noted: NotedEvent, name: str, largest: int | None, report: Report) -> Obj | None:
    """Return an event, without its objects if it is too large; None for one that is too large even then.

    largest  bytes of an event; None for any size
    """
    event = readable(noted, name, report)
    if event is None or largest is None or _size(event) <= largest:
        return event
    if noted.audit.level >= Level.REQUEST:
        event = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
        annotations = {**event.get("annotations", {}), TRUNCATED: "true"}
        event["annotations"] = dict(sorted(annotations.items()))
        if _size(event) <= largest:
            return event
    report("truncate", "event is too large even after truncating", 1)
    return None


def _size(event: Obj) -> int:
    return len(encode(event)) + 1


class _Processing:
    """Calls a plugin, and reports its errors."""

    def __init__(self, plugin: Plugin, largest: int | None, report: Report) -> None:
        self._plugin = plugin
        self._largest = largest
        self._report = report

    def __call__(self, batch: Sequence[NotedEvent]) -> bool:
        """Report whether events were written; those that cannot be encoded count as written."""
        name, largest, report = self._plugin.name, self._largest, self._report
        events = [event for noted in batch if (event := fitting(noted, name, largest, report)) is not None]
        try:
            if events:
                self._plugin.process(events)
        except Exception as why:
            report(name, str(why), len(events))
            return False
        return True


class Blocking:
    """Lets answers wait for their events; with "blocking-strict" they fail if their first event is not written.

    The events of one request are written one after the other.
    """

    def __init__(self, plugin: Plugin, options: BackendOptions, report: Report, *, at_once: bool) -> None:
        self._plugin = plugin
        self._process = _Processing(plugin, options.largest_event, report)
        self._is_strict = options.mode == BLOCKING_STRICT
        threads = SENDERS if at_once else 1
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"audit-{plugin.name}")
        self._last: dict[str, Future[bool]] = {}  # the last events of requests that are being written, by audit ID

    def put(self, event: NotedEvent) -> Future[bool]:
        key = event.fields["auditID"]
        written = self._last[key] = self._threads.submit(self._written, event, self._last.get(key))
        written.add_done_callback(partial(self._forget, key))
        return written

    def _forget(self, key: str, written: Future[bool]) -> None:
        if self._last.get(key) is written:
            self._last.pop(key, None)

    def _written(self, event: NotedEvent, before: Future[bool] | None) -> bool:
        if before is not None:  # it was submitted first, so a thread has it already
            wait([before])
        return self._process([event]) or not self._is_strict

    def close(self) -> None:
        """Write what waits to be written."""
        self._threads.shutdown()
        self._plugin.close()


class Buffered:
    """Gathers events and writes them in batches, in one thread or, if that takes time, in one for each batch."""

    def __init__(self, plugin: Plugin, options: BackendOptions, report: Report, *, at_once: bool) -> None:
        self._plugin = plugin
        self._process = _Processing(plugin, options.largest_event, report)
        self._batching: Batching = options.batching
        self._report = report
        self._waiting: Queue[NotedEvent] = Queue(options.batching.buffer_size)
        self._closed = threading.Event()
        per_second, burst = options.batching.per_second, options.batching.burst
        self._throttle = None if per_second is None else TokenBucket(per_second, burst, time.monotonic)
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="audit-batch") if at_once else None
        self._thread = threading.Thread(target=self._run, name=f"audit-{plugin.name}", daemon=True)
        self._thread.start()

    def put(self, event: NotedEvent) -> None:
        try:
            self._waiting.put_nowait(event)
        except Full:
            self._report("buffered", "audit buffer queue blocked", 1)

    def close(self) -> None:
        """Write what waits to be written."""
        self._closed.set()
        self._thread.join()
        self._plugin.close()
        if self._senders is not None:
            self._senders.shutdown()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._write(self._collect(self._next))
        while batch := self._collect(lambda until: self._waiting.get_nowait()):
            self._write(batch)

    def _collect(self, take: Callable[[float], NotedEvent]) -> list[NotedEvent]:
        """Return the next events: as many as a batch has, or those that came in its time."""
        batch: list[NotedEvent] = []
        until = time.monotonic() + self._batching.max_wait
        try:
            while len(batch) < self._batching.max_size:
                batch.append(take(until))
        except Empty:
            pass
        return batch

    def _next(self, until: float) -> NotedEvent:
        """Return the next event. Raises Empty when it is time to write, or to end."""
        while not self._closed.is_set():
            left = until - time.monotonic()
            if self._batching.max_size > 1 and left <= 0:
                break
            try:
                return self._waiting.get(timeout=min(max(left, 0.0), POLL) if self._batching.max_size > 1 else POLL)
            except Empty:
                continue
        raise Empty

    def _write(self, batch: list[NotedEvent]) -> None:
        if not batch:
            return
        if self._throttle is not None and not self._closed.is_set():
            self._closed.wait(self._throttle.reserve())
        if self._senders is None:
            self._process(batch)
        else:
            self._senders.submit(self._process, batch)
