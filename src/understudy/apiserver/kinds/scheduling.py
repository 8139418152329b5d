"""Priority classes."""

from __future__ import annotations

from typing import Any

from understudy.admission.cluster import priorities
from understudy.admission.core.pod_defaults import set_absent
from understudy.admission.meta import CORE
from understudy.admission.updates import in_order
from understudy.apiserver.kind import Context, Rules, Strategy
from understudy.apiserver.printing import age, name
from understudy.apiserver.types import Obj


def _defaults(priority: Obj, ctx: Context) -> None:
    set_absent(priority, "preemptionPolicy", "PreemptLowerPriority")


def _first_generation(priority: Obj, ctx: Context) -> None:
    priority["metadata"]["generation"] = 1


def _row(priority: Obj) -> list[Any]:
    value, default = priority.get("value", 0), bool(priority.get("globalDefault"))
    return [name(priority), value, default, age(priority), priority.get("preemptionPolicy", "")]


def _short_row(priority: Obj) -> list[Any]:
    return _row(priority)[:-1]


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    strategy = Strategy(
        prepare_for_create=_first_generation,
        validate=priorities.create,
        validate_update=in_order(CORE.updated, priorities.changes),
        check_create=priorities.only_default,
        check_update=lambda obj, old, ctx: priorities.only_default(obj, ctx),
    )
    row = _short_row if release == "1.31" else _row
    protected = dict.fromkeys(priorities.SYSTEM, "this is a system priority class and cannot be deleted")
    return {
        ("scheduling.k8s.io", "PriorityClass"): Rules(
            defaults=_defaults, strategy=strategy, row=row, protected=protected
        )
    }
