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
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.flowcontrol.fairqueuing.levels import PERIOD, PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import ONE_SEAT, TIME_OUT, Place, Work
from understudy.apiserver.flowcontrol.flows import REGULAR, WATCH, observe
from understudy.apiserver.flowcontrol.retry_after import RetryAfter
from understudy.apiserver.flowcontrol.work_estimator import WorkEstimator
from understudy.apiserver.server.filters.limits import dumps
from understudy.apiserver.server.filters.limits.flow_metrics import FlowMetrics
from understudy.apiserver.server.filters.limits.lanes import Lane, Lanes
from understudy.apiserver.server.filters.limits.limiter import TooManyRequestsError, TurnAwaitedError
from understudy.apiserver.server.filters.limits.watermark import (
    MUTATING,
    READ_ONLY,
    READS,
    Watermarks,
    inflight_family,
    kind_of,
)
from understudy.apiserver.server.filters.request_deadline import LONGEST
from understudy.apiserver.server.pages.exposition import Family
from understudy.apiserver.server.pages.mux import Page
from understudy.machinery.releases.version import Version
from understudy.machinery.util.clock import Clock

_PART = 4  # a request may wait for this part of its time


class FairQueuing:
    """Limits the requests of one server by their priority levels."""

    def __init__(
        self,
        flow_control: FlowControl,
        levels: PriorityLevels,
        estimator: WorkEstimator,
        clock: Clock,
        release: Version,
    ) -> None:
        self._flow_control = flow_control
        self._levels = levels
        self._estimator = estimator
        self._clock = clock
        self._now = clock.monotonic
        self._retry_after = defaultdict[str, RetryAfter](RetryAfter)
        self._executing, self._waiting = Watermarks(self._now), Watermarks(self._now)
        self._metrics = FlowMetrics(levels, flow_control, self._executing, self._waiting, release)
        self._reads, self._writes = (Lanes(levels, self._executing[kind]) for kind in (READ_ONLY, MUTATING))
        self._busy = 0  # requests that have a place
        self._lone: Request | None = None  # the only request, while it has none
        self._lone_lane: Lane
        self._lone_since = 0.0
        self._second_ends = 0
        self._used: dict[Lane, None] = {}  # in this second, without a place
        levels.before_change = self._change
        self.pages: Mapping[str, Page] = dumps.pages(levels, clock)

    def admit(self, request: Request) -> None:
        """Take seats for a request until its `leave` is called. Raises TurnAwaitedError or TooManyRequestsError.

        Of long-running requests watches take seats, until they begin.
        """
        info = request.info
        verb = info.verb
        if info.long_running and verb != "watch":
            return
        classification = self._flow_control.classify(request.user, info)
        request.response_headers = classification.headers
        lane = (self._reads if verb in READS else self._writes)[classification]
        if verb == "get":  # the most frequent verb, whose requests all are the same work
            work = ONE_SEAT
        else:
            work = self._estimator.estimate(info, request.query, lane.level.most_seats, lane.flow)
        now, queues = self._now(), lane.queues
        if self._busy or self._lone or work is not ONE_SEAT or queues.seats or not queues.takes_lone or verb == "watch":
            self._settle()
            self._join(request, lane, work, now)
            return
        if now >= self._second_ends:
            self._tell()
            self._second_ends = int(now) + 1
        self._lone, self._lone_lane, self._lone_since = request, lane, now
        request.leave = self._end_lone

    def families(self) -> Iterable[Family]:
        """Return the metrics of requests that are executed, wait or were refused, and of the seats for them."""
        about = "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second."
        self._levels.count()
        yield inflight_family(self._executing)
        yield self._waiting.family("apiserver_current_inqueue_requests", about)
        yield from self._metrics.families()

    async def adjust_periodically(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """Lend seats anew every ten seconds."""
        while True:
            await pause(PERIOD)
            self._flow_control.refresh()
            self._levels.adjust()

    # --- requests without a place

    def _end_lone(self) -> None:
        """Note that the only request has ended. What it has written of priority levels is in force then."""
        self._lone = None
        self._used[self._lone_lane] = None
        self._lone_lane.end(self._lone_since, self._now())
        if self._flow_control.is_stale:
            self._flow_control.refresh()

    def _settle(self) -> None:
        """Give the only request its place: there is another one, or somebody looks at places."""
        if self._used:
            self._tell()
        if self._lone is not None:
            request, self._lone = self._lone, None
            self._join(request, self._lone_lane, ONE_SEAT, self._lone_since)

    def _tell(self) -> None:
        for lane in sorted(self._used, key=lambda lane: lane.ended):  # what was dispatched last is told last
            lane.tell()
        self._used.clear()

    def _change(self) -> None:
        """Be ready for a change of priority levels, or for a look at them."""
        self._settle()
        self._metrics.count()
        self._reads.clear()
        self._writes.clear()

    # --- requests with a place

    def _join(self, request: Request, lane: Lane, work: Work, now: float) -> None:
        """Give a request its place. Raises TurnAwaitedError, TooManyRequestsError."""
        flow, level, method = lane.flow, lane.level, lane.classification.distinguisher
        distinguisher = ""
        if method and level.queues.config.queues > 1:
            distinguisher = request.user.name if method == "ByUser" else request.info.namespace
        place = Place(flow.schema, distinguisher, work, request, now)
        flow.seats[work.most_seats] += 1
        if reason := level.queues.start(place):
            observe(flow.waits[False], 0.0)
            raise self._refused(lane, reason)
        self._busy += 1
        if place.length:
            flow.queue_lengths[place.length] += 1
        if place.began is None:
            raise TurnAwaitedError(self._wait(place, lane))
        self._begin(place, lane, place.began)

    def _begin(self, place: Place, lane: Lane, now: float) -> None:
        """Note that a request is executed from now on."""
        lane.flow.dispatched += 1
        lane.executing.add(1, now)
        if not lane.level.is_exempt:
            observe(lane.flow.waits[True], now - place.came)
        request: Request = place.details
        request.leave = partial(self._end, place, lane)

    def _end(self, place: Place, lane: Lane) -> None:
        """Free the seats of a request. What it has written of priority levels is in force then."""
        now = self._now()
        self._busy -= 1
        lane.executing.add(-1, now)
        assert place.began is not None
        kind = WATCH if place.details.info.verb == "watch" else REGULAR
        observe(lane.flow.executions[kind], now - place.began)
        lane.queues.finish(place, now)
        if lane.level.quiescing:
            self._forget_if_gone(lane.level)
        if self._flow_control.is_stale:
            self._flow_control.refresh()

    async def _wait(self, place: Place, lane: Lane) -> None:
        """Wait until a request may be executed. Raises TooManyRequestsError if that takes too long."""
        request: Request = place.details
        turn = asyncio.get_running_loop().create_future()

        def begin() -> None:
            self._begin(place, lane, self._now())
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
            now = self._now()
            waiting.add(-1, now)
            if lane.queues.cancel(place):
                is_refused = True
                self._busy -= 1
                observe(lane.flow.waits[True], now - place.came)  # as upstream counts those in queues
                self._forget_if_gone(lane.level)
        if is_refused:
            raise self._refused(lane, TIME_OUT)

    def _refused(self, lane: Lane, reason: str) -> TooManyRequestsError:
        """Count a request that is refused; return the error for its client."""
        lane.flow.rejected[reason] += 1
        return TooManyRequestsError(self._retry_after[lane.level.name].refuse(int(self._clock.now())))

    def _forget_if_gone(self, level: PriorityLevel) -> None:
        """Forget a level that is gone, if its last request has ended."""
        if level.quiescing and level.queues.is_idle:
            self._flow_control.give_back()


def _patience(request: Request) -> float:
    """Return the seconds that a request may wait: a part of the time that there is for it."""
    left = LONGEST if request.deadline == inf else request.deadline - monotonic()
    return min(left / _PART, LONGEST)
