"""Validation of horizontal pod autoscalers, in the form of autoscaling/v2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from understudy.kinds.apps.common import SPEC, counters
from understudy.kinds.common.formats import choice, invalid_texts, label, nonnegative
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.resources import as_quantity, container_name
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_34, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation.field import Errors, FieldError, Path, forbidden, invalid, not_supported, required
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
    return _spec(obj["spec"], None, ctx)


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed autoscaler, which may keep zero replicas, and API versions that are wrong."""
    return _spec(obj["spec"], old["spec"], ctx)


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the counts in the status of an autoscaler, and the generations of its conditions (since 1.37)."""
    status, where = obj.get("status") or {}, Path("status", "conditions")
    errors: Errors = []
    if ctx.release >= V1_37:
        for i, condition in enumerate(status.get("conditions") or ()):
            errors += nonnegative(condition.get("observedGeneration"), where.index(i).child("observedGeneration"))
    return errors + counters(status, ("currentReplicas", "desiredReplicas"))


def _spec(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    lowest = 0 if ctx.gates[features.HPA_SCALE_TO_ZERO] or (old or {}).get("minReplicas") == 0 else 1
    low, high, where = spec.get("minReplicas"), spec.get("maxReplicas", 0), SPEC.child("maxReplicas")
    errors: Errors = []
    if low is not None and low < lowest:
        errors.append(invalid(SPEC.child("minReplicas"), low, f"must be greater than or equal to {lowest}"))
    if high < 1:
        errors.append(_TOO_LOW[ctx.release](high, where))
    if low is not None and high < low:
        text = "must be greater than or equal to `minReplicas`"
        errors.append(replace(invalid(where, high, text), undeclared=True))
    errors += _target_reference(spec, old, ctx.release)
    metrics = spec.get("metrics") or []
    check_described = ctx.release >= V1_34 and not any(map(_describes_wrongly, (old or {}).get("metrics") or ()))
    for i, metric in enumerate(metrics):
        errors += _metric(metric, SPEC.child("metrics").index(i), check_described)
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(SPEC.child("metrics"), text))
    for name in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(name)
        if rules is not None:
            errors += _rules(rules, SPEC.child("behavior", name))
    return errors


def _missing_or_low(high: int, path: Path) -> FieldError:
    if high == 0:
        return required(path, "must be set and greater than 0")
    return invalid(path, high, "must be greater than or equal to 1")


def _low(high: int, path: Path) -> FieldError:
    return invalid(path, high, "must be greater than 0")


_TOO_LOW = ByRelease({V1_36: _missing_or_low, V1_31: _low})


def _segment(value: str, path: Path, detail: str = "") -> Errors:
    return invalid_texts(path_segment_name(value, False), value, path) if value else [required(path, detail)]


def _reference(ref: Obj, path: Path) -> Errors:
    return [e for name in ("kind", "name") for e in _segment(ref.get(name, ""), path.child(name))]


def _target_reference(spec: Obj, old: Obj | None, version: Version) -> Errors:
    """Check what is scaled. An API version that is wrong already may stay."""
    path = SPEC.child("scaleTargetRef")
    ref, before = spec.get("scaleTargetRef") or {}, (old or {}).get("scaleTargetRef")
    errors = _reference(ref, path)
    same = before is not None and all(ref.get(name, "") == before.get(name, "") for name in ("apiVersion", "kind"))
    if version < V1_34 or same:
        return errors
    core = ref.get("kind") == "ReplicationController"  # the one kind of the core group that can be scaled
    return errors + _api_version(ref, path, core=core)


def _api_version(ref: Obj, path: Path, *, core: bool) -> Errors:
    """Check the API version of a reference, which names a group unless it may be of the `core` group."""
    text, where = ref.get("apiVersion", ""), path.child("apiVersion")
    if text.count("/") > 1:
        return [invalid(where, text, f"unexpected GroupVersion string: {text}")]
    group = text.rpartition("/")[0]
    return [] if core or group else [invalid(where, text, "apiVersion must specify API group")]


def _describes_wrongly(metric: Obj) -> bool:
    """Report whether the object that a metric describes has an API version that cannot be read."""
    described = (metric.get("object") or {}).get("describedObject") or {}
    return metric.get("type") == "Object" and bool(_api_version(described, SPEC, core=True))


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
    tolerance = rules.get("tolerance")
    if tolerance is not None and parse(tolerance) < parse("0"):
        bad_value = as_quantity(tolerance)
        errors.append(invalid(path.child("tolerance"), bad_value, "must be greater than or equal to 0"))
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


def _metric(metric: Obj, path: Path, check_described: bool) -> Errors:
    kind, where = metric.get("type", ""), path.child("type")
    listed = sorted(_TYPES)
    errors = [] if kind else [required(where, "must specify a metric source type")]
    if kind not in _TYPES:
        errors.append(not_supported(where, kind, listed))
    present = [name for name in _TYPES.values() if metric.get(name) is not None]
    if present:
        check = partial(_object, check_described) if present[0] == "object" else _SOURCES[present[0]]
        errors += check(metric[present[0]], path.child(present[0]))
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


def _object(check_described: bool, source: Obj, path: Path) -> Errors:
    described, where = source.get("describedObject") or {}, path.child("describedObject")
    errors = _reference(described, where)
    errors += _api_version(described, where, core=True) if check_described else []
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
    "external": lambda source, path: _named(source, _EXTERNAL, path),
    "pods": lambda source, path: _named(source, _PODS, path),
    "resource": _resource,
    "containerResource": _of_container,
}
