"""Resource lists, {resource name: quantity}: how they are rounded, and warnings about them."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import parse, round_up_milli
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path


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


def fractional_bytes(amounts: Obj | None, path: Path, *names: str) -> Iterator[str]:
    """Warn of amounts of bytes that are no integers, of the resources with these names."""
    for name in names:
        text = (amounts or {}).get(name)
        if text and parse(text).scaled(-3) % 1000:
            yield f"{path.key(name)}: fractional byte value {go_quote(text)} is invalid, must be an integer"
