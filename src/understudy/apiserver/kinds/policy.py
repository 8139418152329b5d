"""Pod disruption budgets: strategies, table cells."""

from __future__ import annotations

from understudy.admission.validation import policy
from understudy.admission.validation.compose import as_on_create, no_metadata_validation
from understudy.apiserver.kinds.common import resource_strategy, status_strategy
from understudy.apiserver.kinds.printers import field, row
from understudy.apiserver.registry.kind import Behavior
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _text(budget: Obj, key: str) -> str:
    """Return a limit of a budget as a cell, `N/A` if it has none."""
    limit = budget.get("spec", {}).get(key)
    return "N/A" if limit is None else str(limit)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("policy", "PodDisruptionBudget"): Behavior(
            strategy=resource_strategy(
                "policy",
                "v1",
                "PodDisruptionBudget",
                validate_metadata=no_metadata_validation,
                validate=policy.create,
                validate_update=as_on_create(policy.create),
                generation=True,
                unconditional_update=False,
            ),
            status=status_strategy(validate_update=policy.status_update, unconditional_update=False),
            table_row=row(
                lambda budget: _text(budget, "minAvailable"),
                lambda budget: _text(budget, "maxUnavailable"),
                field("status", "disruptionsAllowed", default=0),
            ),
        )
    }
