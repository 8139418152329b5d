"""Counts what a cache of bearer tokens would answer: those that were good within ten seconds.

kube-apiserver keeps the users of tokens for that long, and does not look at them again. Here they are looked at each
time. Upstream: k8s.io/apiserver/pkg/authentication/token/cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from understudy.machinery.util.metrics import DEFAULT_SECONDS, AnyFamily, Counter, Gauge, Histogram

KEPT = 10.0  # seconds for which a token is known (`TokenSuccessCacheTTL`)
MOST = 4096  # tokens
HIT, MISS = "hit", "miss"

Key = tuple[str, ...]  # a token, and the audiences that it has to be for


class TokenCache:
    """The tokens of one server that were good within ten seconds, and how often they were shown."""

    def __init__(self) -> None:
        self._until: dict[Key, float] = {}
        self._hits = 0
        self._misses = Histogram("", "", (), DEFAULT_SECONDS)
        self._fetches = Counter("authentication_token_cache_fetch_total", "[ALPHA] ", ("status",))

    def hit(self, key: Key) -> bool:
        """Report whether a token is known, and count it then."""
        until = self._until.get(key)
        if until is None or until < monotonic():
            return False
        self._hits += 1
        return True

    def miss(self, key: Key, seconds: float, *, good: bool, failed: bool = False) -> None:
        """Count a token that was not known, and how long it took to find out whose it is.

        good    whether it is somebody's
        failed  whether that was not to be found out
        """
        self._misses.observe(int(seconds * 1000) / 1000)
        self._fetches.add("error" if failed else "ok")
        if good:
            if len(self._until) >= MOST:
                self._until.clear()
            self._until[key] = monotonic() + KEPT

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families, in the order of their names."""
        prefix, labels = "authentication_token_cache", ("status",)
        active = Gauge(f"{prefix}_active_fetch_count", "[ALPHA] ", labels)
        durations = Histogram(f"{prefix}_request_duration_seconds", "[ALPHA] ", labels, DEFAULT_SECONDS)
        if self._hits:
            durations.series[HIT,].observe(0.0, DEFAULT_SECONDS, self._hits)  # milliseconds, which these do not take
        if self._misses.series:
            durations.series[MISS,] = self._misses.series[()]
            active.series = {("blocked",): 0, ("in_flight",): 0}
        requests = Counter(f"{prefix}_request_total", "[ALPHA] ", labels)
        requests.series.update({status: sum(series.counts) for status, series in durations.series.items()})
        return active, self._fetches, durations, requests
