"""What requests are counted by, and the events of watches. Upstream: k8s.io/apiserver/pkg/endpoints/metrics.

Requests have the labels of the route that answers them: what a filter refuses, or what has no route, is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.declarations.kind import Kind
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.releases.version import V1_31, V1_34, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.metrics import SLI_SECONDS, AnyFamily, Counter, Gauge, Histogram, Series

# Values of LABELS: the verb in capitals (LIST, WATCH, APPLY), the scope cluster, namespace, resource or "", dry_run
# "All" or "".
RequestLabels = tuple[str, str, str, str, str, str, str]
LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run")
APPLY, CONNECT, WATCH = "APPLY", "CONNECT", "WATCH"
_CONNECTED = ("attach", "exec", "log", "portforward", "proxy")  # the subresources whose requests are CONNECT
_VERBS = ("DELETE", "PATCH", "POST", "PUT")

EVENT_BYTES = tuple(1024.0 * 2**power for power in range(8))
_STABILITY = ByRelease({V1_37: "BETA", V1_31: "ALPHA"})
_NAMED = ByRelease({V1_34: "resource", V1_31: "kind"})  # what names the kind of an event
_LIST_STABILITY = ByRelease({V1_36: "BETA", V1_31: "ALPHA"})
_LIST_SECONDS = ByRelease(
    {
        V1_37: (*SLI_SECONDS, 90, 120, 180, 300),
        V1_31: (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60),
    }
)


class Monitored(NamedTuple):
    """The labels by which the requests of a route are counted. `is_read`: whether sizes of answers are, too."""

    labels: RequestLabels
    is_read: bool


def monitored(info: Attributes, kind: Kind, method: str, *, is_one: bool, is_deprecated: bool) -> Monitored:
    """Put together what the requests of a route are counted by (`InstrumentRouteFunc`, `InstrumentHandlerFunc`).

    is_one         whether the path names an object
    is_deprecated  whether it is one of those below /watch/
    """
    size = "cluster"
    if is_one or info.verb == "create":
        size = "resource"
    elif info.namespace:
        size = "namespace"
    if info.subresource in _CONNECTED:
        verb = CONNECT
    elif info.verb == "watch":
        verb = WATCH
    elif method in _VERBS:
        verb = method
    else:
        verb = "GET" if size == "resource" else "LIST"
    is_read = method == "GET" and verb != CONNECT and not is_deprecated and (kind.custom is None or verb != WATCH)
    return Monitored((verb, info.group, info.version, info.resource, info.subresource, size, ""), is_read)


class WatchMetrics:
    """Counts the events that watches have sent, and how long those have taken that begin with what is stored."""

    def __init__(self, version: Version) -> None:
        labels, stability = ("group", _NAMED[version], "version"), _STABILITY[version]
        self._names_resources = version >= V1_34
        self._sizes = Histogram(
            "apiserver_watch_events_sizes", f"[{stability}] Watch event size distribution in bytes", labels, EVENT_BYTES
        )
        self._events = Counter(
            "apiserver_watch_events_total", f"[{stability}] Number of events sent in watch clients", labels
        )
        self._lists = Histogram(
            "apiserver_watch_list_duration_seconds",
            f"[{_LIST_STABILITY[version]}] Response latency distribution in seconds for watch list requests broken by "
            "group, version, resource and scope.",
            ("group", "resource", "scope", "version"),
            _LIST_SECONDS[version],
        )
        self._shards = Gauge(
            "apiserver_watch_shards_total",
            "[ALPHA] Number of active sharded watch connections broken by resource type.",
            ("group", "resource"),
        )
        self._filtered = Counter(
            "apiserver_watch_filtered_events_total",
            "[ALPHA] Counter of events filtered out by shard selector during watch dispatch, broken by resource type.",
            ("group", "resource"),
        )

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families, in the order of their names."""
        for labels, series in self._sizes.series.items():
            self._events.series[labels] = sum(series.counts)
        of_shards = (family for family in (self._filtered, self._shards) if family.series)
        return self._sizes, self._events, *of_shards, self._lists

    def events(self, kind: Kind, version: str) -> Series:
        """Return the sizes of the events of a kind, in which a watch counts its own."""
        return self._sizes.series[kind.group, kind.resource if self._names_resources else kind.name, version]

    def observe_list(self, labels: RequestLabels, seconds: float) -> None:
        """Count a watch that has sent what was stored when it began (`RecordWatchListLatency`)."""
        _, group, version, resource, _, scope, _ = labels
        self._lists.observe(seconds, group, resource, scope, version)

    def count_sharded_start(self, kind: Kind) -> None:
        """Count a watch of shards that begins (`RecordShardedWatchStarted`)."""
        self._count_sharded(kind, 1)

    def count_sharded_end(self, kind: Kind) -> None:
        """Count a watch of shards that ends (`RecordShardedWatchStopped`): twice, since the handler of the request and
        the goroutine of the watch both stop it, so that the number falls below 0."""
        self._count_sharded(kind, -2)

    def _count_sharded(self, kind: Kind, more: int) -> None:
        labels = kind.group, kind.resource
        self._shards.set(self._shards.series.get(labels, 0.0) + more, *labels)

    def count_filtered(self, kind: Kind) -> None:
        """Count an object before or after a write, or at the beginning, that a watch of other shards was asked about
        (`RecordWatchFilteredEvent`)."""
        self._filtered.add(kind.group, kind.resource)
