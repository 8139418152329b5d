"""The metrics of the audit log. Upstream: k8s.io/apiserver/pkg/audit/metrics.go."""

from __future__ import annotations

import logging
from threading import Lock

from understudy.apiserver.permissions.audit.policy import Level
from understudy.machinery.util.metrics import Counter

log = logging.getLogger("understudy")


def log_error(plugin: str, why: str, count: int) -> None:
    """Log how many events a plugin did not write, and why not (`HandlePluginError`)."""
    log.error("Error in audit plugin '%s' affecting %d audit events: %s", plugin, count, why)


class AuditMetrics:
    """Counts the events of one server's audit log, the levels of its policy, and what went wrong."""

    def __init__(self) -> None:
        prefix = "apiserver_audit"
        self._errors = Counter(
            f"{prefix}_error_total",
            "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected "
            "by the error.",
            ("plugin",),
        )
        self._events = Counter(
            f"{prefix}_event_total",
            "[ALPHA] Counter of audit events generated and sent to the audit backend.",
            (),
        )
        self._levels = Counter(
            f"{prefix}_level_total",
            "[ALPHA] Counter of policy levels for audit events (1 per request).",
            ("level",),
        )
        self._rejected = Counter(
            f"{prefix}_requests_rejected_total",
            "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.",
            (),
        )
        for family in (self._events, self._rejected):  # those without labels are there from the start
            family.series[()] = 0
        self._reporting = Lock()

    @property
    def families(self) -> tuple[Counter, ...]:
        """Return all families, in the order of their names."""
        return self._errors, self._events, self._levels, self._rejected

    def observe_event(self) -> None:
        """Count an event that is handed to the backends (`ObserveEvent`)."""
        self._events.add()

    def observe_level(self, level: Level | None) -> None:
        """Count the level of a request by the policy, None for one that is not logged (`ObservePolicyLevel`)."""
        self._levels.add("None" if level is None else str(level))

    def reject(self) -> None:
        """Count a request that is refused since its first event was not written."""
        self._rejected.add()

    def report(self, plugin: str, why: str, count: int) -> None:
        """Log and count the events that a plugin did not write, from any thread."""
        log_error(plugin, why, count)
        with self._reporting:
            self._errors.series[plugin,] += count
