"""The times at which pods have to be evicted, and the taints that are the reasons."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.controlplane.allocator.checks.taints import tolerates
from understudy.machinery.types import NamedTuple, Obj, dataclass
from understudy.machinery.util.clock import parse_timestamp

NO_EXECUTE = "NoExecute"


class Reason(NamedTuple):
    """The origin of a taint: a rule, or a device and the number of its taint. Upstream: `trackedTaint`."""

    rule: str = ""
    rule_uid: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    number: int = 0


class TrackedTaint(NamedTuple):
    """A taint, and where it comes from."""

    taint: Obj
    reason: Reason


@dataclass(frozen=True)
class Eviction:
    """An eviction to come: its time, in seconds since 1970, and its reasons. Upstream: `evictionAndReason`."""

    when: float
    reasons: frozenset[Reason]

    def joined(self, other: Eviction | None) -> Eviction:
        """Return the earlier time with the reasons of both."""
        return self if other is None else Eviction(min(self.when, other.when), self.reasons | other.reasons)

    def rules(self) -> list[Reason]:
        """Return the reasons that are rules, sorted by name."""
        return sorted(reason for reason in self.reasons if reason.rule)


def eviction_by(taints: Iterable[TrackedTaint], tolerations: Iterable[Obj]) -> Eviction | None:
    """Return the eviction by the NoExecute taints of an allocated device, None if all are tolerated for ever.

    A taint counts from its `timeAdded` on, and the shortest `tolerationSeconds` of those that tolerate it later.
    """
    tolerations = list(tolerations)
    eviction: Eviction | None = None
    for taint, reason in taints:
        tolerating = [
            toleration
            for toleration in tolerations
            if toleration.get("effect") == NO_EXECUTE and tolerates(toleration, taint)
        ]
        if any(toleration.get("tolerationSeconds") is None for toleration in tolerating) or not taint.get("timeAdded"):
            continue
        delay = min((max(0, toleration["tolerationSeconds"]) for toleration in tolerating), default=0)
        when = parse_timestamp(taint["timeAdded"]) + delay
        eviction = Eviction(when, frozenset([reason])).joined(eviction)
    return eviction
