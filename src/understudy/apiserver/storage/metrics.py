"""Counts what reads and writes of objects ask of the store, as kube-apiserver counts its requests of etcd and lists of
its watch cache (`k8s.io/apiserver/pkg/storage/etcd3/metrics`, `…/storage/metrics`, `…/storage/cacher/metrics`).

    create, update, delete   writes
    get                      reads of an object, also by updates that then write nothing: others rely on the watch cache
    list                     lists that the watch cache does not answer
    CONSISTENT_READ          how the watch cache learns the newest revision before it answers a list
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Coroutine, Iterator, Mapping
from operator import attrgetter
from time import perf_counter
from typing import Any, Protocol, TypeVar

from understudy.apiserver.storage.interface import Entry
from understudy.machinery.errors import StatusError, group_resource_text
from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease, Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.metrics import REQUEST_SECONDS, AnyFamily, Counter, Histogram, Labels, Series

T = TypeVar("T")

CREATE, DELETE, GET, LIST, UPDATE = "create", "delete", "get", "list", "update"
# How an updated object is found to be equal to the old one but for the times of managed fields, or unequal.
EQUAL, UNEQUAL_FAST, UNEQUAL_SLOW = "equal_objects", "unequal_objects_fast", "unequal_objects_slow"
_COMPARISON_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0)
CONSISTENT_READ = ByRelease({V1_37: "getCurrentResourceVersion", V1_31: GET})

_LABELS = ByRelease({V1_34: ("group", "resource"), V1_31: ("resource",)})  # that name a kind
_EVALUATED = "_evaluated_objects"  # which the watch cache does not count
_SOURCES = {True: "watchcache", False: "etcd"}

Operation = tuple[str, str, str]  # name, group, resource


class Kind(Protocol):
    """Names what requests are about, in a release."""

    @property
    def release(self) -> Version:
        """Return the release that counts them."""

    @property
    def group(self) -> str:
        """Return the API group."""

    @property
    def name(self) -> str:
        """Return the name of the kind, such as Pod."""

    @property
    def resource(self) -> str:
        """Return the name in paths, such as pods."""


@dataclass(slots=True)
class Lists:
    """The lists of a kind that the watch cache has answered, or that it has not: their number, and those of objects.

    cache_prefix  of the keys in the cache
    """

    cache_prefix: str
    count: int = 0
    fetched: int = 0
    evaluated: int = 0
    returned: int = 0


class StorageMetrics:
    """Counts the requests of one server to its store."""

    def __init__(self) -> None:
        self._requests: dict[Operation, Series] = {}
        self._errors: Counts[Operation] = Counts()
        self._lists: dict[tuple[str, str, bool], Lists] = {}  # by group, resource, and whether the watch cache answers
        self._comparisons = Histogram(
            "apiserver_request_timestamp_comparison_time",
            "[ALPHA] Time taken for comparison of old vs new objects in UPDATE or PATCH requests",
            ("code_path",),
            _COMPARISON_SECONDS,
        )

    async def timed(self, name: str, kind: Kind, request: Coroutine[Any, Any, T]) -> T:
        """Make a request and count it, and its error if the storage fails."""
        started = perf_counter()
        try:
            return await request
        except StatusError:
            self.observe_error(name, kind)
            raise
        finally:
            self.observe(name, kind, perf_counter() - started)

    def observe_error(self, name: str, kind: Kind) -> None:
        """Count a request that the storage has failed to answer."""
        self._errors[name, kind.group, kind.resource] += 1

    def observe(self, name: str, kind: Kind, seconds: float, entry: Entry | None = None) -> None:
        """Count a request that took some seconds (`RecordEtcdRequest`). A read may say which entry it has found."""
        key = name, kind.group, kind.resource
        series = self._requests.get(key)
        if series is None:
            series = self._requests[key] = Series.of(REQUEST_SECONDS)
        series.observe(seconds, REQUEST_SECONDS)

    def observe_comparison(self, how: str, seconds: float) -> None:
        """Count an update by how its object was compared with the old one (`RecordTimestampComparisonLatency`)."""
        self._comparisons.observe(seconds, how)

    def observe_cached_get(self, kind: Kind) -> None:
        """Note a read of an object that the watch cache answers. It is not counted."""

    def observe_list(self, kind: Kind, prefix: str, fetched: int, returned: int, *, is_cached: bool) -> None:
        """Count a list that was answered, by the watch cache or not (`RecordStorageListMetrics`).

        `prefix` is that of all keys of the kind.
        """
        key = kind.group, kind.resource, is_cached
        lists = self._lists.get(key)
        if lists is None:
            lists = self._lists[key] = Lists(prefix.removeprefix("/registry").removesuffix("/"))
        lists.count += 1
        lists.fetched += fetched
        lists.returned += returned
        if not is_cached:
            lists.evaluated += fetched

    def observe_consistent_read(self, kind: Kind, prefix: str, seconds: float) -> None:
        """Count how the watch cache learns the newest revision: before 1.37 by a list of a key that is not there."""
        name = CONSISTENT_READ[kind.release]
        self.observe(name, kind, seconds)
        if name == GET:
            self.observe_list(kind, prefix, 0, 0, is_cached=False)

    def families(self, version: Version) -> list[AnyFamily]:
        """Return all families of a release."""
        return [*self._request_families(version), *self._list_families(version), self._comparisons]

    def _request_families(self, version: Version) -> list[AnyFamily]:
        labels = ("operation", *_LABELS[version]) if version >= V1_34 else ("operation", "type")
        durations = Histogram(
            "etcd_request_duration_seconds",
            "[ALPHA] Etcd request latency in seconds for each operation and object type.",
            labels,
            REQUEST_SECONDS,
        )
        for (name, group, resource), series in self._requests.items():
            durations.series[name, *_named(version, group, resource)] = series
        about = "[ALPHA] Etcd {}request counts for each operation and object type."
        totals = Counter("etcd_requests_total", about.format(""), labels)
        totals.series.update({key: sum(series.counts) for key, series in durations.series.items()})
        errors = Counter("etcd_request_errors_total", about.format("failed "), labels)
        for (name, group, resource), count in self._errors.items():
            errors.series[name, *_named(version, group, resource)] = count
        return [durations, totals, errors]

    def _list_families(self, version: Version) -> Iterator[AnyFamily]:
        """Yield the families of lists: 1.37 has those of the watch cache among those of the storage."""
        labels, source = _LABELS[version], "storage"
        if version >= V1_37:
            lists = {(*named, _SOURCES[is_cached]): each for (*named, is_cached), each in self._lists.items()}
            yield from _counters(source, source, (*labels, "storage"), lists, index=True)
            yield self._list_durations(labels)
            return
        etcd = {_named(version, *named): each for (*named, is_cached), each in self._lists.items() if not is_cached}
        yield from _counters(source, source, labels, etcd, index=False)
        cached = {tuple(named): each for (*named, is_cached), each in self._lists.items() if is_cached}
        if version < V1_34:
            labels, cached = ("resource_prefix",), {(each.cache_prefix,): each for each in cached.values()}
        of_cache = _counters("cache", "watch cache", labels, cached, index=True)
        yield from (family for family in of_cache if _EVALUATED not in family.name)

    def _list_durations(self, labels: Labels) -> AnyFamily:
        durations = Histogram(
            "apiserver_storage_list_duration_seconds",
            "[ALPHA] Latency of the storage layer GetList call in seconds, including object decode, split by whether "
            "etcd RangeStream was used.",
            ("streamed", *labels),
            REQUEST_SECONDS,
        )
        for (name, *named), series in self._requests.items():
            if name == LIST:
                durations.series["false", *named] = series
        return durations


def _counters(
    prefix: str, source: str, labels: Labels, lists: Mapping[Labels, Lists], *, index: bool
) -> Iterator[Counter]:
    """Yield the families of lists that a source has served. `index`: some have its label, which is "" here."""
    course = "in the course of serving a LIST request"
    for name, about, counted, has_index in (
        ("", f"LIST requests served from {source}", attrgetter("count"), index),
        ("_fetched_objects", f"objects read from {source} {course}", attrgetter("fetched"), index),
        (_EVALUATED, f"objects tested {course} from {source}", attrgetter("evaluated"), False),
        ("_returned_objects", f"objects returned for a LIST request from {source}", attrgetter("returned"), False),
    ):
        more = ("index",) if has_index else ()
        family = Counter(f"apiserver_{prefix}_list{name}_total", f"[ALPHA] Number of {about}", (*labels, *more))
        family.series.update({(*values, "") if has_index else values: counted(each) for values, each in lists.items()})
        yield family


def _named(version: Version, group: str, resource: str) -> Labels:
    """Return the values of the labels that name a kind: until 1.33 there is one."""
    return (group, resource) if version >= V1_34 else (group_resource_text(group, resource),)
