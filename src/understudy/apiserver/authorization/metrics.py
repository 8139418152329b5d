"""The metrics of authorization: decisions, webhooks that are asked, and their match conditions.

Upstream: k8s.io/apiserver/pkg/authorization/metrics, plugin/pkg/authorizer/webhook/metrics, and the filter's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.machinery.auth.authorization import Decision
from understudy.machinery.util.metrics import (
    ACCESS_SECONDS,
    CONDITION_SECONDS,
    DEFAULT_SECONDS,
    AnyFamily,
    Counter,
    Histogram,
    Labels,
    SampledHistogram,
)

_NAMESPACE = "apiserver_authorization"
_PREFIX, _BY = f"{_NAMESPACE}_match_condition", "split by authorizer type and name."


class ConditionMetrics:
    """Counts the evaluations of match conditions of authorizers."""

    def __init__(self) -> None:
        labels = ("name", "type")
        self._errors = Counter(
            f"{_PREFIX}_evaluation_errors_total",
            f"[ALPHA] Total number of errors when an authorization webhook encounters a match condition error {_BY}",
            labels,
        )
        self._seconds = Histogram(
            f"{_PREFIX}_evaluation_seconds",
            f"[ALPHA] Authorization match condition evaluation time in seconds, {_BY}",
            labels,
            CONDITION_SECONDS,
        )
        self._exclusions = Counter(
            f"{_PREFIX}_exclusions_total",
            "[ALPHA] Total number of exclusions when an authorization webhook is skipped because match conditions "
            "exclude it.",
            labels,
        )

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families, in the order of their names."""
        return self._errors, self._seconds, self._exclusions

    def observe(self, name: str, seconds: float, *, matches: bool, failed: bool) -> None:
        """Count an evaluation of all conditions of a webhook, of which some may have failed."""
        self._seconds.observe(seconds, name, "Webhook")
        if failed:
            self._errors.add(name, "Webhook")
        elif not matches:
            self._exclusions.add(name, "Webhook")


class WebhookMetrics:
    """Counts the round trips to webhooks that authorize."""

    def __init__(self) -> None:
        labels = ("name", "result")
        self._seconds = Histogram(
            f"{_NAMESPACE}_webhook_duration_seconds", "[ALPHA] Request latency in seconds.", labels, DEFAULT_SECONDS
        )
        self._failed_open = Counter(
            f"{_NAMESPACE}_webhook_evaluations_fail_open_total",
            "[ALPHA] NoOpinion results due to webhook timeout or error.",
            labels,
        )
        self._evaluations = Counter(
            f"{_NAMESPACE}_webhook_evaluations_total", "[ALPHA] Round-trips to authorization webhooks.", labels
        )

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families, in the order of their names."""
        return self._seconds, self._failed_open, self._evaluations

    def observe(self, name: str, result: str, seconds: float) -> None:
        """Count a round trip to the webhook of an authorizer, whose result is "success", "error", "timeout" or
        "canceled"."""
        self._evaluations.add(name, result)
        self._seconds.observe(seconds, name, result)

    def fail_open(self, name: str, result: str) -> None:
        """Count a webhook that could not be asked, in which case others decide."""
        self._failed_open.add(name, result)


class AuthorizationMetrics:
    """Counts what is authorized."""

    def __init__(self) -> None:
        self._attempts = Counter(
            "authorization_attempts_total",
            "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', "
            "'no-opinion' or 'error'.",
            ("result",),
        )
        self._seconds = SampledHistogram(
            "authorization_duration_seconds",
            "[ALPHA] Authorization duration in seconds broken out by result.",
            ("result",),
            ACCESS_SECONDS,
            lambda: self.attempts,
        )
        self._decisions = Counter(
            f"{_NAMESPACE}_decisions_total",
            "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and "
            "decision.",
            ("decision", "name", "type"),
        )
        self.conditions = ConditionMetrics()
        self.webhooks = WebhookMetrics()

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families."""
        self._seconds.settle()
        return self._attempts, self._seconds, self._decisions, *self.conditions.families, *self.webhooks.families

    @property
    def attempts(self) -> Mapping[Labels, int]:
        """Return the number of requests by the result of authorization."""
        return self._attempts.series

    def measure(self, seconds: float) -> None:
        """Note how long it took to decide about the last request."""
        self._seconds.measure(seconds)

    def attempt(self, decision: Decision) -> None:
        """Count a request that was authorized, or not."""
        if decision.allowed:
            result = "allowed"
        elif decision.error:
            result = "error"
        else:
            result = "denied" if decision.denied else "no-opinion"
        self._attempts.add(result)

    def decide(self, type_: str, name: str, *, allowed: bool) -> None:
        """Count a decision of one authorizer, after which no other is asked."""
        self._decisions.add("allowed" if allowed else "denied", name, type_)
