"""The pages below /debug/api_priority_and_fairness/, which list priority levels, queues and requests.

https://kubernetes.io/docs/reference/debug-cluster/flow-control/ (upstream: apf_controller_debug.go)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.flowcontrol.fairqueuing.levels import PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import SCALE, Place, Queue
from understudy.apiserver.server.pages.mux import Page, as_page
from understudy.machinery.golang.json_reader import to_bytes
from understudy.machinery.golang.times import duration_text, fraction_text
from understudy.machinery.util.clock import Clock

PREFIX = "/debug/api_priority_and_fairness"
_LEVELS = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUES = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUESTS = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime"),
    *("InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"),
)
_DETAILS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_NARROWEST = 8  # characters of a column
_NEVER = "0001-01-01T00:00:00Z"
Rows = Iterable[Sequence[str]]


def pages(levels: PriorityLevels, clock: Clock) -> Mapping[str, Page]:
    """Return the pages by their paths."""
    rows: dict[str, Callable[[PriorityLevels, Request], Rows]] = {
        "dump_priority_levels": _level_rows,
        "dump_queues": _queue_rows,
        "dump_requests": partial(_request_rows, clock),
    }
    return {f"{PREFIX}/{name}": as_page(partial(_page, levels, make)) for name, make in rows.items()}


def _page(levels: PriorityLevels, make: Callable[[PriorityLevels, Request], Rows], request: Request) -> Response:
    levels.before_change()  # else the request itself may have no place
    return Response(200, to_bytes(_table(list(make(levels, request)))), "text/plain; charset=utf-8")


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows in columns, with commas, as Go's `tabwriter` sets them."""
    cells = [[f"{cell}," for cell in row[:-1]] for row in rows]
    widths = [max(_NARROWEST, *(len(cell) + 1 for cell in column)) for column in zip(*cells, strict=True)]
    lines = (
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + last[-1]
        for row, last in zip(cells, rows, strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def _sorted(levels: PriorityLevels) -> list[PriorityLevel]:
    return sorted(levels.by_name.values(), key=lambda level: level.name)


def _level_rows(levels: PriorityLevels, _: Request) -> Iterator[Sequence[str]]:
    yield _LEVELS
    for level in _sorted(levels):
        queues = level.queues
        active = sum(bool(queue.waiting) for queue in queues.queues)
        numbers = queues.waiting, queues.executing, queues.dispatched, queues.rejected, 0, queues.cancelled
        yield (level.name, str(active), _flag(queues.is_idle), _flag(level.quiescing), *map(str, numbers))


def _queue_rows(levels: PriorityLevels, _: Request) -> Iterator[Sequence[str]]:
    yield _QUEUES
    for level in _sorted(levels):
        for index, queue in enumerate(level.queues.queues):
            seats = sum(place.work.seats for place in queue.waiting)
            most = sum(place.work.most_seats for place in queue.waiting)
            numbers = index, len(queue.waiting), len(queue.executing), queue.seats
            sums = _seat_seconds(queue.next_start), str(seats), str(most), _seat_seconds(queue.work)
            yield (level.name, *map(str, numbers), *sums)


def _request_rows(clock: Clock, levels: PriorityLevels, request: Request) -> Iterator[Sequence[str]]:
    ahead = clock.now() - clock.monotonic()
    has_details = bool(request.query.get("includeRequestDetails"))
    yield (*_REQUESTS, *_DETAILS) if has_details else _REQUESTS
    for level in _sorted(levels):
        for queue_index, index, place in _places(level.queues.queues, level.queues.without_queue):
            row = (level.name, place.schema, str(queue_index), str(index), *_columns(place, ahead))
            yield (*row, *_details(place.details)) if has_details else row


def _places(queues: Iterable[Queue], without: Iterable[Place]) -> Iterator[tuple[int, int, Place]]:
    """Yield all requests with the number of their queue, and their number in it; -1 for those that do not wait."""
    for queue_index, queue in enumerate(queues):
        yield from ((queue_index, index, place) for index, place in enumerate(queue.waiting))
        yield from ((queue_index, -1, place) for place in queue.executing)
    yield from ((-1, -1, place) for place in without)


def _columns(place: Place, ahead: float) -> Sequence[str]:
    """Return the cells of a request; `ahead` is what the time of day is ahead of the clock of places, in seconds."""
    work = place.work
    latency = duration_text(round(work.latency * 10**9))
    return (
        place.distinguisher,
        _time(place.came + ahead),
        str(work.seats),
        str(work.final_seats),
        latency,
        _NEVER if place.began is None else _time(place.began + ahead),
    )


def _details(request: Request) -> Sequence[str]:
    info = request.info
    where = info.namespace, info.name, info.api_version, info.resource, info.subresource
    return (request.user.name, info.verb, info.path, *where)


def _seat_seconds(amount: int) -> str:
    return f"{amount // SCALE}.{amount % SCALE:08d}ss"


def _time(seconds: float) -> str:
    """Return a time, in seconds since 1970, as Go prints it (`RFC3339Nano`)."""
    whole, fraction = divmod(round(seconds * 10**6), 10**6)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}{fraction_text(fraction * 1000)}Z"


def _flag(value: bool) -> str:
    return str(value).lower()
