"""The metrics of connections through proxies. Upstream: `DialMetrics` of egressselector/metrics."""

from __future__ import annotations

from time import monotonic

from understudy.apiserver.server.webhooks.egress.dialing import Proxy
from understudy.machinery.util.metrics import Counter, Histogram

CONNECT, PROXY = "connect", "proxy"  # where a connection failed: on the way to the proxy, or at the proxy
_PROTOCOL = "http_connect"
_PREFIX = "apiserver_egress_dialer_dial_"
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 12.5)
_LABELS = ("protocol", "transport")
_NAMED = "labeled by the protocol (http-connect or grpc)"
_STAGES = "and stage (connect or proxy). The stage indicates at which stage the dial failed"


class DialMetrics:
    """Counts connections that are made through proxies, and times those that come about."""

    def __init__(self) -> None:
        start, seconds, failure = (f"{_PREFIX}{name}" for name in ("start_total", "duration_seconds", "failure_count"))
        about = f"[ALPHA] Dial starts, {_NAMED} and transport (tcp or uds)."
        self._starts = Counter(start, about, _LABELS)
        about = f"[ALPHA] Dial latency histogram in seconds, {_NAMED}, transport (tcp or uds)"
        self._seconds = Histogram(seconds, about, _LABELS, _SECONDS)
        about = f"[ALPHA] Dial failure count, {_NAMED}, transport (tcp or uds), {_STAGES}"
        self._failures = Counter(failure, about, (*_LABELS, "stage"))

    @property
    def families(self) -> tuple[Counter | Histogram, ...]:
        """Return the families of /metrics; one has samples as soon as something is counted."""
        return self._starts, self._seconds, self._failures

    def start(self, proxy: Proxy) -> DialCount:
        """Count a connection that begins."""
        labels = (_PROTOCOL, "uds" if proxy.path else "tcp")
        self._starts.add(*labels)
        return DialCount(self._seconds, self._failures, labels)


class DialCount:
    """Counts how one connection ends that has begun.

    stage  where it is now
    """

    def __init__(self, seconds: Histogram, failures: Counter, labels: tuple[str, ...]) -> None:
        self._seconds, self._failures, self._labels = seconds, failures, labels
        self._began = monotonic()
        self.stage = CONNECT

    def fail(self) -> None:
        """Count a connection that did not come about."""
        self._failures.add(*self._labels, self.stage)

    def succeed(self) -> None:
        """Count a connection that is there."""
        self._seconds.observe(monotonic() - self._began, *self._labels)
