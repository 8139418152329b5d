"""Measures how long filters take. Upstream: k8s.io/apiserver/pkg/endpoints/filterlatency.

Where no filter waits for anything, one of 128 requests is measured: that costs more than most filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.endpoints.request import Request
from understudy.machinery.util.metrics import Counter, Histogram, SampledHistogram, merged

Filter = Callable[[Request], None]
MEASURED = 128  # one of so many requests is measured
AUTHENTICATION, AUDIT, FAIRNESS, AUTHORIZATION = "authentication", "audit", "priorityandfairness", "authorization"
_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)
_REFUSED = "429"


class FilterTimes:
    """Measures the filters of one server, by their names.

    users, decisions  count the requests that pass authentication, and those that are authorized
    terminations      count those that are refused since there is no room for them
    """

    def __init__(self, users: AuthenticationMetrics, decisions: AuthorizationMetrics, terminations: Counter) -> None:
        self._users = users
        self._decisions = decisions
        self._terminations = terminations
        self._by_name: dict[str, SampledHistogram] = {}

    def add(self, name: str) -> None:
        """Count the requests that pass a filter."""
        self._by_name[name] = SampledHistogram(
            "apiserver_request_filter_duration_seconds",
            "[ALPHA] Request filter latency distribution in seconds, for each filter type",
            ("filter",),
            _SECONDS,
            lambda: {(name,): self._passed(name)},
        )

    def note(self, name: str, seconds: float) -> None:
        """Note how long a filter took for the last request that passed it."""
        self._by_name[name].measure(seconds)
        if name == AUTHENTICATION:
            self._users.measure(seconds)
        elif name == AUTHORIZATION:
            self._decisions.measure(seconds)

    def measured(self, name: str, check: Filter) -> Filter:
        """Return a filter that does the same as another, and is measured."""

        def measure(request: Request) -> None:
            begun = perf_counter()
            try:
                check(request)
            finally:
                self.note(name, perf_counter() - begun)

        return measure

    def _passed(self, name: str) -> int:
        """Return the number of requests that have passed a filter, which others have counted (`TrackCompleted`)."""
        attempts = self._decisions.attempts
        if name == AUTHENTICATION:
            return sum(self._users.attempts.values())  # kube-apiserver counts those that it refuses, too
        if name == AUDIT:
            return self._users.attempts.get(("success",), 0)
        if name == AUTHORIZATION:
            return attempts.get(("allowed",), 0)
        refused = (
            0
            if name == FAIRNESS
            else sum(count for labels, count in self._terminations.series.items() if labels[0] == _REFUSED)
        )
        return sum(attempts.values()) + refused

    @property
    def families(self) -> Sequence[Histogram]:
        """Return the family of all filters, none where nothing is measured."""
        return (merged([*self._by_name.values()]),)
