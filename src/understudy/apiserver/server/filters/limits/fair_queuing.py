"""Lets requests wait for seats of their priority level, and refuses those for which there is no room.

https://kubernetes.io/docs/concepts/cluster-administration/flow-control/ (upstream: `priorityAndFairnessHandler`)
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from math import inf
from time import monotonic

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.flowcontrol.classification import Classification, FlowControl
from understudy.apiserver.flowcontrol.fairqueuing.levels import PERIOD, PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import ONE_SEAT, TIME_OUT, Place
from understudy.apiserver.flowcontrol.retry_after import RetryAfter
from understudy.apiserver.flowcontrol.work_estimator import WorkEstimator
from understudy.apiserver.server.filters.limits import dumps
from understudy.apiserver.server.filters.limits.flow_metrics import FlowMetrics
from understudy.apiserver.server.filters.limits.limiter import TooManyRequestsError, TurnAwaitedError
from understudy.apiserver.server.filters.limits.watermark import Watermark, Watermarks, inflight_family, kind_of
from understudy.apiserver.server.filters.request_deadline import LONGEST
from understudy.apiserver.server.pages.exposition import Family
from understudy.apiserver.server.pages.mux import Page
from understudy.machinery.util.clock import Clock

_PART = 4  # a request may wait for this part of its time


class FairQueuing:
    """Limits the requests of one server by their priority levels."""

    def __init__(
        self, flow_control: FlowControl, levels: PriorityLevels, estimator: WorkEstimator, clock: Clock
    ) -> None:
        self._flow_control = flow_control
        self._levels = levels
        self._estimator = estimator
        self._clock = clock
        self._now = clock.monotonic
        self._retry_after = defaultdict[str, RetryAfter](RetryAfter)
        self._metrics = FlowMetrics(levels)
        self._executing, self._waiting = Watermarks(self._now), Watermarks(self._now)
        self.pages: Mapping[str, Page] = dumps.pages(levels, clock)

    def admit(self, request: Request) -> None:
        """Take seats for a request until its `leave` is called. Raises TurnAwaitedError or TooManyRequestsError.

        Of long-running requests watches take seats, until they begin.
        """
        info = request.info
        if info.long_running and info.verb != "watch":
            return
        classification = self._flow_control.classify(request.user, info)
        request.response_headers = classification.headers
        level = self._levels.by_name[classification.level]
        distinguisher = ""
        if classification.distinguisher and level.queues.config.queues > 1:
            distinguisher = request.user.name if classification.distinguisher == "ByUser" else info.namespace
        is_get = info.verb == "get"  # the most frequent verb, whose requests all are the same work
        work = ONE_SEAT if is_get else self._estimator.estimate(info, request.query, level.most_seats)
        place = Place(classification.schema, distinguisher, work, request, self._now())
        if reason := level.queues.start(place):
            self._metrics.note_wait(place, level.name, executed=False)
            raise self._refused(place, level, reason)
        if place.began is None:
            raise TurnAwaitedError(self._wait(place, level, classification))
        self._begin(place, level, classification, place.began)

    def families(self) -> Iterable[Family]:
        """Return the metrics of requests that are executed, wait or were refused, and of the seats for them."""
        about = "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second."
        yield inflight_family(self._executing)
        yield self._waiting.family("apiserver_current_inqueue_requests", about)
        yield from self._metrics.families()

    async def adjust_periodically(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """Lend seats anew every ten seconds."""
        while True:
            await pause(PERIOD)
            self._flow_control.refresh()
            self._levels.adjust()

    def _begin(self, place: Place, level: PriorityLevel, classification: Classification, now: float) -> None:
        """Note that a request is executed from now on."""
        request: Request = place.details
        executing = self._executing[kind_of(request.info.verb)]
        classification.dispatched.count += 1
        executing.add(1, now)
        if not level.is_exempt:
            self._metrics.note_wait(place, level.name, executed=True)
        request.leave = partial(self._end, place, level, executing)

    def _end(self, place: Place, level: PriorityLevel, executing: Watermark) -> None:
        """Free the seats of a request. What it has written of priority levels is in force then."""
        now = self._now()
        executing.add(-1, now)
        level.queues.finish(place, now)
        if level.quiescing:
            self._forget_if_gone(level)
        if self._flow_control.is_stale:
            self._flow_control.refresh()

    async def _wait(self, place: Place, level: PriorityLevel, classification: Classification) -> None:
        """Wait until a request may be executed. Raises TooManyRequestsError if that takes too long."""
        request: Request = place.details
        turn = asyncio.get_running_loop().create_future()

        def begin() -> None:
            self._begin(place, level, classification, self._now())
            if not turn.done():
                turn.set_result(None)

        place.on_dispatch = begin
        waiting = self._waiting[kind_of(request.info.verb)]
        waiting.add(1, place.came)
        is_refused = False
        try:
            async with asyncio.timeout(_patience(request)):
                await turn
        except TimeoutError:
            pass  # it may have been dispatched in this very moment
        finally:
            waiting.add(-1, self._now())
            if level.queues.cancel(place):
                is_refused = True
                self._metrics.note_wait(place, level.name, executed=True)  # as upstream counts those in queues
                self._forget_if_gone(level)
        if is_refused:
            raise self._refused(place, level, TIME_OUT)

    def _refused(self, place: Place, level: PriorityLevel, reason: str) -> TooManyRequestsError:
        """Count a request that is refused; return the error for its client."""
        self._metrics.rejected[place.schema, level.name, reason] += 1
        return TooManyRequestsError(self._retry_after[level.name].refuse(int(self._clock.now())))

    def _forget_if_gone(self, level: PriorityLevel) -> None:
        """Forget a level that is gone, if its last request has ended."""
        if level.quiescing and level.queues.is_idle:
            self._flow_control.give_back()


def _patience(request: Request) -> float:
    """Return the seconds that a request may wait: a part of the time that there is for it."""
    left = LONGEST if request.deadline == inf else request.deadline - monotonic()
    return min(left / _PART, LONGEST)
