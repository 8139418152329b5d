"""Priority classes: defaults, strategy, table cells."""

from __future__ import annotations

from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation import scheduling
from understudy.admission.validation.compose import all_of
from understudy.admission.validation.objectmeta import CORE
from understudy.apiserver.kinds.printers import age, name
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases.version import V1_31, V1_32, ByRelease, Version
from understudy.machinery.types import Obj, default_if_nil


def _defaults(priority: Obj, ctx: Context) -> None:
    default_if_nil(priority, "preemptionPolicy", "PreemptLowerPriority")


def _first_generation(priority: Obj, ctx: Context) -> None:
    priority["metadata"]["generation"] = 1


def _row(priority: Obj, now: float) -> list[Any]:
    """Return the cells of a priority class."""
    value, default = priority.get("value", 0), bool(priority.get("globalDefault"))
    return [name(priority), value, default, age(priority, now), priority.get("preemptionPolicy", "")]


def _row_without_preemption_policy(priority: Obj, now: float) -> list[Any]:
    """Return the cells of a priority class but the last."""
    return _row(priority, now)[:-1]


_ROWS = ByRelease({V1_31: _row_without_preemption_policy, V1_32: _row})


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    strategy = Strategy(
        prepare_for_create=_first_generation,
        validate=scheduling.create,
        validate_update=all_of(CORE.updated, scheduling.changes),
    )
    protected = dict.fromkeys(scheduling.SYSTEM, "this is a system priority class and cannot be deleted")
    return {
        ("scheduling.k8s.io", "PriorityClass"): Behavior(
            defaults=_defaults, strategy=strategy, table_row=_ROWS[release], protected=protected
        )
    }
