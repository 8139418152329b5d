"""Pod disruption budgets: strategies, table cells."""

from __future__ import annotations

from understudy.kinds.common.compose import as_on_create, no_metadata_validation
from understudy.kinds.common.printers import field, row
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.declarations.strategies import resource_strategy, status_strategy
from understudy.kinds.policy import validation
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _text(budget: Obj, key: str) -> str:
    """Return a limit of a budget as a cell, `N/A` if it has none."""
    limit = budget.get("spec", {}).get(key)
    return "N/A" if limit is None else str(limit)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("policy", "PodDisruptionBudget"): Behavior(
            strategy=resource_strategy(
                "policy",
                "v1",
                "PodDisruptionBudget",
                validate_metadata=no_metadata_validation,
                validate=validation.create,
                validate_update=as_on_create(validation.create),
                generation=True,
                unconditional_update=False,
            ),
            status=status_strategy(validate_update=validation.status_update, unconditional_update=False),
            table_row=row(
                lambda budget: _text(budget, "minAvailable"),
                lambda budget: _text(budget, "maxUnavailable"),
                field("status", "disruptionsAllowed", default=0),
            ),
        )
    }
