"""Validation of horizontal pod autoscalers, in the form of autoscaling/v2."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from understudy.admission.context import Context
from understudy.admission.validation.apps.common import SPEC, counters
from understudy.admission.validation.core.containers.resources import as_quantity, container_name
from understudy.admission.validation.formats import choice, invalid_texts, label
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import path_segment_name

LONGEST_PERIOD, LONGEST_WINDOW = 1800, 3600  # seconds

_TYPES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECTS = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")


def create(obj: Obj, ctx: Context) -> Errors:
    """Check an autoscaler (upstream: `ValidateHorizontalPodAutoscaler`)."""
    return _spec(obj["spec"], 0 if ctx.gates[features.HPA_SCALE_TO_ZERO] else 1)


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed autoscaler, which may keep zero replicas."""
    zero = ctx.gates[features.HPA_SCALE_TO_ZERO] or old["spec"].get("minReplicas") == 0
    return _spec(obj["spec"], 0 if zero else 1)


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the counts in an autoscaler's status."""
    return counters(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"))


def _spec(spec: Obj, lowest: int) -> Errors:
    low, high, where = spec.get("minReplicas"), spec.get("maxReplicas", 0), SPEC.child("maxReplicas")
    errors: Errors = []
    if low is not None and low < lowest:
        errors.append(invalid(SPEC.child("minReplicas"), low, f"must be greater than or equal to {lowest}"))
    if high < 1:
        errors.append(invalid(where, high, "must be greater than 0"))
    if low is not None and high < low:
        errors.append(invalid(where, high, "must be greater than or equal to `minReplicas`"))
    errors += _reference(spec.get("scaleTargetRef") or {}, SPEC.child("scaleTargetRef"))
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        errors += _metric(metric, SPEC.child("metrics").index(i))
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(SPEC.child("metrics"), text))
    for name in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(name)
        if rules is not None:
            errors += _rules(rules, SPEC.child("behavior", name))
    return errors


def _segment(value: str, path: Path, detail: str = "") -> Errors:
    return invalid_texts(path_segment_name(value, False), value, path) if value else [required(path, detail)]


def _reference(ref: Obj, path: Path) -> Errors:
    return [e for name in ("kind", "name") for e in _segment(ref.get(name, ""), path.child(name))]


def _rules(rules: Obj, path: Path) -> Errors:
    window, where = rules.get("stabilizationWindowSeconds"), path.child("stabilizationWindowSeconds")
    errors: Errors = []
    if window is not None and window < 0:
        errors.append(invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > LONGEST_WINDOW:
        errors.append(invalid(where, window, f"must be less than or equal to {LONGEST_WINDOW}"))
    if rules.get("selectPolicy") is not None:
        errors += choice(rules["selectPolicy"], _SELECTS, path.child("selectPolicy"))
    policies, where = rules.get("policies") or [], path.child("policies")
    if not policies:
        errors.append(required(where, "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        errors += _policy(policy, where.index(i))
    return errors


def _policy(policy: Obj, path: Path) -> Errors:
    errors = choice(policy.get("type", ""), _POLICIES, path.child("type"))
    for name in ("value", "periodSeconds"):
        if policy.get(name, 0) <= 0:
            errors.append(invalid(path.child(name), policy.get(name, 0), "must be greater than zero"))
    if policy.get("periodSeconds", 0) > LONGEST_PERIOD:
        text = f"must be less than or equal to {LONGEST_PERIOD}"
        errors.append(invalid(path.child("periodSeconds"), policy["periodSeconds"], text))
    return errors


def _metric(metric: Obj, path: Path) -> Errors:
    kind, where = metric.get("type", ""), path.child("type")
    listed = sorted(_TYPES)
    errors = [] if kind else [required(where, "must specify a metric source type")]
    if kind not in _TYPES:
        errors.append(not_supported(where, kind, listed))
    present = [name for name in _TYPES.values() if metric.get(name) is not None]
    if present:
        errors += _SOURCES[present[0]](metric[present[0]], path.child(present[0]))
    expected = _TYPES.get(kind, "")
    if not expected:
        errors.append(not_supported(where, kind, listed))
    elif expected not in present:
        errors.append(required(path.child(expected), "must populate information for the given metric source"))
    if len(present) != 1:
        text = "must populate the given metric source only"
        errors += [forbidden(path.child(name), text) for name in present if name != expected]
    return errors


class Target(NamedTuple):
    """The rule for a source's target: one of `either`, and no two of them where `only` has a text."""

    either: tuple[str, str]
    missing: str
    where: str
    only: str = ""


_RAW = Target(
    ("averageUtilization", "averageValue"),
    "must set either a target raw value or a target utilization",
    "averageUtilization",
    "may not set both a target raw value and a target utilization",
)
_OBJECT = Target(("value", "averageValue"), "must set either a target value or averageValue", "averageValue")
_EXTERNAL = Target(
    ("averageValue", "value"),
    "must set either a target value for metric or a per-pod target",
    "averageValue",
    "may not set both a target value for metric and a per-pod target",
)
_PODS = Target(("averageValue", "averageValue"), "must specify a positive target averageValue", "averageValue")


def _target(target: Obj, rule: Target, path: Path) -> Errors:
    kind = target.get("type", "")
    errors = [] if kind else [required(path.child("type"), "must specify a metric target type")]
    if kind not in _TARGETS:
        errors.append(invalid(path.child("type"), kind, "must be either Utilization, Value, or AverageValue"))
    quantities = ((name, target.get(name)) for name in ("value", "averageValue"))
    errors += [
        invalid(path.child(name), as_quantity(text), "must be positive")
        for name, text in quantities
        if text is not None and parse(text) <= parse("0")
    ]
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.append(invalid(path.child("averageUtilization"), share, "must be greater than 0"))
    present = [name for name in rule.either if target.get(name) is not None]
    if not present:
        errors.append(required(path.child(rule.where), rule.missing))
    if len(present) == 2 and rule.only:
        errors.append(forbidden(path.child(rule.either[1]), rule.only))
    return errors


def _named(source: Obj, rule: Target, path: Path) -> Errors:
    name = (source.get("metric") or {}).get("name", "")
    errors = _segment(name, path.child("metric", "name"), "must specify a metric name")
    return errors + _target(source.get("target") or {}, rule, path.child("target"))


def _object(source: Obj, path: Path) -> Errors:
    errors = _reference(source.get("describedObject") or {}, path.child("describedObject"))
    return errors + _named(source, _OBJECT, path)


def _resource(source: Obj, path: Path) -> Errors:
    errors = [] if source.get("name") else [required(path.child("name"), "must specify a resource name")]
    return errors + _target(source.get("target") or {}, _RAW, path.child("target"))


def _of_container(source: Obj, path: Path) -> Errors:
    errors: Errors = []
    if source.get("name"):
        errors += container_name(source["name"], path.child("name"))
    else:
        errors.append(required(path.child("name"), "must specify a resource name"))
    container, where = source.get("container", ""), path.child("container")
    errors += label(container, where) if container else [required(where, "must specify a container")]
    return errors + _target(source.get("target") or {}, _RAW, path.child("target"))


_SOURCES: dict[str, Callable[[Obj, Path], Errors]] = {
    "object": _object,
    "external": lambda source, path: _named(source, _EXTERNAL, path),
    "pods": lambda source, path: _named(source, _PODS, path),
    "resource": _resource,
    "containerResource": _of_container,
}
