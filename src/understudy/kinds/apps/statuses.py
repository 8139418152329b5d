"""Validation of the statuses of workloads: counts, and which of them cannot exceed which."""

from __future__ import annotations

from collections.abc import Callable

from understudy.kinds.apps.common import at_most, collisions, counters
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.context import Context
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation.field import Errors


class Counts(NamedTuple):
    """The counts in a status. `numbers` are not negative; `parts` are no more than `replicas`.

    `ready` ends the text about available ones. `metadata_last`: errors of metadata come after those of the counts.
    """

    numbers: tuple[str, ...]
    parts: tuple[str, ...] = ()
    ready: str = "readyReplicas"
    collides: bool = False
    metadata_last: bool = False


DEPLOYMENT = Counts(
    (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    ("updatedReplicas", "readyReplicas", "availableReplicas"),
    collides=True,
)
REPLICA_SET = Counts(
    (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ),
    ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)
DAEMON_SET = Counts(
    (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ),
    collides=True,
)
STATEFUL_SET = Counts(
    (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ),
    ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    ready="status.readyReplicas",
    collides=True,
    metadata_last=True,
)


def checked(counts: Counts) -> Callable[[Obj, Obj, Context], Errors]:
    """Make the rule for status updates."""

    def validate(obj: Obj, old: Obj, ctx: Context) -> Errors:
        status, before = obj.get("status") or {}, old.get("status") or {}
        errors, metadata = counters(status, counts.numbers), CORE.updated(obj, old, ctx)
        if counts.parts:
            errors += at_most(status, counts.parts, "replicas", "cannot be greater than status.replicas")
            errors += at_most(status, ["availableReplicas"], "readyReplicas", f"cannot be greater than {counts.ready}")
        errors = errors + metadata if counts.metadata_last else metadata + errors
        return errors + (collisions(status, before) if counts.collides else [])

    return validate
