"""Estimates how many seats a request takes. Upstream: k8s.io/apiserver/pkg/util/flowcontrol/request.

A list takes more the more objects there are; a write takes some a moment longer, for those who watch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from understudy.apiserver.flowcontrol.fairqueuing.queue_set import ONE_SEAT, Work, work_of
from understudy.apiserver.flowcontrol.flows import Flow
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.options import Query
from understudy.machinery.types import NamedTuple

_OBJECTS_PER_SEAT = 100
_BYTES_PER_SEAT = 100_000
_MOST_BYTES_FROM_CACHE = 1_000_000  # of a list that is streamed from the cache
_MOST_SEATS = 10
_MOST_SEATS_BY_SIZE = 100  # of a list
_WATCHES_PER_SEAT = 10
_EVENT_SECONDS = 0.005  # that sending an event to some watches takes


class Stats(NamedTuple):
    """The objects of a resource: how many there are, and how many bytes one has on average."""

    number: int
    size: int


class WorkEstimator:
    """Estimates the seats of requests to one server.

    stats    returns those of the resource of a request, None if there is no such
    watches  returns how many watches a write of an object is sent to
    by_size  whether lists are judged by bytes (`SizeBasedListCostEstimate`)
    lists    whether a watch may begin with a list (`WatchList`)
    """

    def __init__(
        self,
        stats: Callable[[Attributes], Stats | None],
        watches: Callable[[Attributes], int],
        *,
        by_size: bool,
        lists: bool,
    ) -> None:
        self._stats = stats
        self._watches = watches
        self._by_size = by_size
        self._lists = lists

    def estimate(self, request: Attributes, query: Query, most: int, flow: Flow) -> Work:
        """Return the work of a request; `flow` counts for how many watches it is.

        most  the seats that one of its priority level takes, 0 for any number
        """
        match request.verb:
            case "list":
                return self._of_list(request, query, most)
            case "watch" if self._lists:
                version = query.get("resourceVersion") or ""
                has_list = version in ("", "0") or query.get("sendInitialEvents") in ("true", "1")
                return self._of_list(request, query, most) if has_list else ONE_SEAT
            case "create" | "update" | "patch" | "delete":
                return self._of_write(request, most, flow)
            case _:
                return ONE_SEAT

    def _of_list(self, request: Attributes, query: Query, most: int) -> Work:
        stats = self._stats(request)
        if stats is None or self._is_small(stats):
            return ONE_SEAT
        limit = _number(query.get("limit"))
        is_cached = request.verb == "watch" or not _reads_storage(query, limit)
        selects = bool(query.get("labelSelector") or query.get("fieldSelector"))
        limit = min(limit or stats.number, stats.number)
        if self._by_size:
            seats, general = _seats_by_size(request, stats, limit, is_cached, selects), _MOST_SEATS_BY_SIZE
        else:
            seats, general = _seats_by_count(request, stats.number, limit, is_cached, selects), _MOST_SEATS
        seats = max(min(seats, most or general, general), 1)
        return ONE_SEAT if seats == 1 else work_of(seats)

    def _is_small(self, stats: Stats) -> bool:
        """Report whether every list takes one seat, as most do, whatever its parameters are."""
        if self._by_size:
            return stats.number * stats.size <= _BYTES_PER_SEAT
        return 2 * stats.number <= _OBJECTS_PER_SEAT

    def _of_write(self, request: Attributes, most: int, flow: Flow) -> Work:
        if request.resource == "serviceaccounts" and request.subresource == "token":
            return ONE_SEAT
        watches = self._watches(request)
        flow.watches[watches] += 1
        if watches < _WATCHES_PER_SEAT:
            return ONE_SEAT
        needed = ceil(watches / _WATCHES_PER_SEAT)
        seats = min(needed, most or _MOST_SEATS, _MOST_SEATS)
        return work_of(1, seats, needed * _EVENT_SECONDS / seats)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _reads_storage(query: Query, limit: int) -> bool:
    """Report whether a list is answered by the storage, not from the watch cache (`ShouldDelegateListMeta`)."""
    if query.get("continue") or query.get("resourceVersionMatch") == "Exact":
        return True
    return limit > 0 and query.get("resourceVersion") != "0"


def _seats_by_count(request: Attributes, count: int, limit: int, is_cached: bool, selects: bool) -> int:
    if request.name:
        objects = 1
    elif is_cached:
        objects = count
    else:
        objects = count + limit if selects else 2 * limit
    return ceil(objects / _OBJECTS_PER_SEAT)


def _seats_by_size(request: Attributes, stats: Stats, limit: int, is_cached: bool, selects: bool) -> int:
    objects = 1 if request.name else limit
    if not request.name and not is_cached and selects:
        objects = max(limit, stats.number // 2)
    size = objects * stats.size
    return ceil((min(size, _MOST_BYTES_FROM_CACHE) if is_cached else size) / _BYTES_PER_SEAT)
