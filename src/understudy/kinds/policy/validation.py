"""Validation of pod disruption budgets."""

from __future__ import annotations

from understudy.kinds.apps.common import SPEC, STATUS, count_or_percent, counters, not_more_than_all
from understudy.kinds.common import conditions, label_selectors
from understudy.kinds.common.formats import choice
from understudy.kinds.context import Context
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, invalid

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a budget (upstream: `ValidatePodDisruptionBudget`)."""
    spec = obj.get("spec") or {}
    limits = {n: spec[n] for n in ("minAvailable", "maxUnavailable") if spec.get(n) is not None}
    errors: Errors = []
    if len(limits) > 1:
        bad_value = Typed(spec, "k8s.io/kubernetes/pkg/apis/policy.PodDisruptionBudgetSpec")
        errors.append(invalid(SPEC, bad_value, "minAvailable and maxUnavailable cannot be both set"))
    for name, limit in limits.items():
        errors += count_or_percent(limit, SPEC.child(name))
        errors += not_more_than_all(limit, SPEC.child(name))
    errors += label_selectors.validate(spec.get("selector"), SPEC.child("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    return errors + ([] if policy is None else choice(policy, _POLICIES, SPEC.child("unhealthyPodEvictionPolicy")))


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the conditions and counts in a budget's status."""
    status = obj.get("status") or {}
    errors = conditions.validate(status.get("conditions") or [], STATUS.child("conditions"))
    numbers = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return errors + counters(status, numbers)
