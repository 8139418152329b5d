"""Rounding of resource lists: {resource name: quantity}."""

from __future__ import annotations

from understudy.machinery.quantity import round_up_milli
from understudy.machinery.types import Obj


def round_up(holder: Obj | None, *names: str) -> None:
    """Round the quantities of an object's resource lists up to thousandths, in place (`SetDefaults_ResourceList`).

    `names` are the fields of `holder` that are resource lists; absent ones are passed over."""
    for name in names:
        amounts = (holder or {}).get(name) or {}
        for resource, amount in amounts.items():
            rounded = round_up_milli(amount)
            if rounded != amount:
                amounts[resource] = rounded


def round_up_requirements(resources: Obj | None) -> None:
    """Round the limits and requests of a container, a pod or a volume claim (`ResourceRequirements`), in place."""
    round_up(resources, "limits", "requests")
