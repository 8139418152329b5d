"""Pod disruption budgets."""

from __future__ import annotations

from understudy.admission.validation import policy
from understudy.admission.validation.compose import again, unasked
from understudy.apiserver.kinds.common import main, status
from understudy.apiserver.kinds.printers import field, row
from understudy.apiserver.registry.kind import Rules
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _text(budget: Obj, key: str) -> str:
    limit = budget.get("spec", {}).get(key)
    return "N/A" if limit is None else str(limit)


def rules(release: Version) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {
        ("policy", "PodDisruptionBudget"): Rules(
            strategy=main(
                "policy",
                "v1",
                "PodDisruptionBudget",
                validate_metadata=unasked,
                validate=policy.create,
                validate_update=again(policy.create),
                generation=True,
                unconditional_update=False,
            ),
            status=status(validate_update=policy.status_update, unconditional_update=False),
            row=row(
                lambda budget: _text(budget, "minAvailable"),
                lambda budget: _text(budget, "maxUnavailable"),
                field("status", "disruptionsAllowed", default=0),
            ),
        )
    }
