"""Validation of priority classes."""

from __future__ import annotations

from understudy.kinds.common.formats import choice
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid

HIGHEST = 1_000_000_000  # the highest priority of a class that is not a system class
SYSTEM_PREFIX = "system-"
SYSTEM = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

_POLICIES = ("PreemptLowerPriority", "Never")
_GROUP, _RESOURCE = "scheduling.k8s.io", "priorityclasses"


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a priority class (upstream: `ValidatePriorityClass`)."""
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    errors: Errors = []
    if name.startswith(SYSTEM_PREFIX):
        why = _not_system(name, value, bool(obj.get("globalDefault")))
        if why:
            text = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
            errors.append(forbidden(Path("metadata", "name"), text))
    elif value > HIGHEST:
        text = f"maximum allowed value of a user defined priority is {HIGHEST}"
        errors.append(forbidden(Path("value"), text))
    policy = obj.get("preemptionPolicy")
    if policy is not None:
        errors += choice(policy, _POLICIES, Path("preemptionPolicy"), needed=True)
    return errors


def _not_system(name: str, value: int, default: bool) -> str:
    if name not in SYSTEM:
        return f"{name} is not a known system priority class"
    if value != SYSTEM[name]:
        return f"value of {name} PriorityClass must be {SYSTEM[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a priority class keeps its value and preemption policy."""
    errors: Errors = []
    if obj.get("value", 0) != old.get("value", 0):
        errors.append(forbidden(Path("value"), "may not be changed in an update."))
    policy = obj.get("preemptionPolicy")
    if policy != old.get("preemptionPolicy"):
        errors.append(invalid(Path("preemptionPolicy"), policy, IMMUTABLE))
    return errors
