"""Component statuses: table cells. The objects are not stored but made by `endpoints.handlers`."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.printers import name
from understudy.kinds.declarations.kind import Behavior
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _component_cells(component: Obj, now: float) -> list[Any]:
    """Return the cells of a component status."""
    for condition in component.get("conditions") or []:
        if condition["type"] == "Healthy":
            health = "Healthy" if condition["status"] == "True" else "Unhealthy"
            return [name(component), health, condition.get("message", ""), condition.get("error", "")]
    return [name(component), "Unknown", "", ""]


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of the kind by (group, kind)."""
    return {("", "ComponentStatus"): Behavior(table_row=_component_cells)}
