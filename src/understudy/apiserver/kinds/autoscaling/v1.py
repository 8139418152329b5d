"""Conversion of autoscalers to autoscaling/v1, which has a CPU target in the spec and everything else in annotations.

spec.metrics         targetCPUUtilizationPercentage (the first of CPU), others autoscaling.alpha.kubernetes.io/metrics
spec.behavior        autoscaling.alpha.kubernetes.io/behavior, with the field names of the Go type
status.currentMetrics, status.conditions      …/current-metrics, …/conditions
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson

from understudy.machinery.types import Obj, nested_field

_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT, CONDITIONS, BEHAVIOR = (
    _PREFIX + name for name in ("metrics", "current-metrics", "conditions", "behavior")
)
ANNOTATIONS = (METRICS, CURRENT, CONDITIONS, BEHAVIOR)


def cpu_metric(percent: int) -> list[Obj]:
    """Return the metrics that a CPU target in percent means."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _is_cpu_target(metric: Obj) -> bool:
    """Report whether a metric is the CPU utilization that v1 has in its spec."""
    resource = metric.get("resource") or {}
    percent = nested_field(resource, "target", "averageUtilization")
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and percent is not None


def from_internal(autoscaler: Obj) -> Obj:
    """Return an autoscaler in the form of v1."""
    spec, status = dict(autoscaler.get("spec") or {}), dict(autoscaler.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    current, conditions = status.pop("currentMetrics", None) or [], status.pop("conditions", None)
    targets = [m for m in metrics if _is_cpu_target(m)]
    if targets:
        spec["targetCPUUtilizationPercentage"] = targets[0]["resource"]["target"]["averageUtilization"]
    for metric in current:
        percent = nested_field(metric, "resource", "current", "averageUtilization")
        if metric.get("type") == "Resource" and metric["resource"].get("name") == "cpu" and percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
    status.setdefault("currentReplicas", 0)
    others = [_old_metric(m, "target") for m in metrics if not _is_cpu_target(m)]
    kept = {
        METRICS: others,
        CURRENT: [_old_metric(m, "current") for m in current],
        BEHAVIOR: _go_names(behavior),
        CONDITIONS: conditions,
    }
    return {
        **autoscaler,
        "metadata": _annotated(autoscaler.get("metadata") or {}, kept),
        "spec": spec,
        "status": status,
    }


def _annotated(metadata: Obj, kept: dict[str, Any]) -> Obj:
    """Return the metadata with `kept` values as JSON in annotations, in place of those that are there."""
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in ANNOTATIONS}
    annotations |= {key: orjson.dumps(value).decode() for key, value in kept.items() if value}
    out = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**out, "annotations": annotations} if annotations else out


def to_internal(autoscaler: Obj) -> Obj:
    """Return the internal form of a v1 autoscaler."""
    spec, status = deepcopy(autoscaler.get("spec") or {}), deepcopy(autoscaler.get("status") or {})
    annotations = nested_field(autoscaler, "metadata", "annotations", default={})
    percent, used = (
        spec.pop("targetCPUUtilizationPercentage", None),
        status.pop("currentCPUUtilizationPercentage", None),
    )
    metrics = [_new_metric(m, "target") for m in _kept(annotations, METRICS, [])]
    metrics += [] if percent is None else cpu_metric(percent)
    spec["metrics"] = metrics or cpu_metric(80)
    behavior = _kept(annotations, BEHAVIOR, None)
    if behavior:
        spec["behavior"] = _json_names(behavior)
    status["currentMetrics"] = [_new_metric(m, "current") for m in _kept(annotations, CURRENT, [])] or (
        [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}]
        if used is not None
        else None
    )
    conditions = _kept(annotations, CONDITIONS, None)
    if conditions:
        status["conditions"] = conditions
    if status.get("currentReplicas") == 0:
        del status["currentReplicas"]
    return {**autoscaler, "metadata": _annotated(autoscaler.get("metadata") or {}, {}), "spec": spec, "status": status}


def _kept(annotations: dict[str, str], key: str, default: Any) -> Any:
    try:
        return orjson.loads(annotations[key])
    except (KeyError, orjson.JSONDecodeError):
        return default


def _go_names(value: Any) -> Any:
    """Return a value with Go's field names as keys: upstream writes the annotation from a type without JSON tags."""
    if isinstance(value, dict):
        return {key[0].upper() + key[1:]: _go_names(item) for key, item in value.items()}
    return [_go_names(item) for item in value] if isinstance(value, list) else value


def _json_names(value: Any) -> Any:
    """Return a value with JSON field names as keys, without nulls."""
    if isinstance(value, dict):
        named = {key[0].lower() + key[1:]: _json_names(item) for key, item in value.items()}
        return {key: item for key, item in named.items() if item is not None}
    return [_json_names(item) for item in value] if isinstance(value, list) else value


# The v1 names of what v2 has in `target` (of a spec) and `current` (of a status), by source of the metric:
# {source: {v1 name: path in v2}}
_NAMES: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "target": {
        "external": {
            "metricName": ("metric", "name"),
            "metricSelector": ("metric", "selector"),
            "targetValue": ("target", "value"),
            "targetAverageValue": ("target", "averageValue"),
        },
        "object": {
            "target": ("describedObject",),
            "metricName": ("metric", "name"),
            "targetValue": ("target", "value"),
            "selector": ("metric", "selector"),
            "averageValue": ("target", "averageValue"),
        },
        "pods": {
            "metricName": ("metric", "name"),
            "targetAverageValue": ("target", "averageValue"),
            "selector": ("metric", "selector"),
        },
        "resource": {
            "name": ("name",),
            "targetAverageUtilization": ("target", "averageUtilization"),
            "targetAverageValue": ("target", "averageValue"),
        },
        "containerResource": {
            "name": ("name",),
            "targetAverageUtilization": ("target", "averageUtilization"),
            "targetAverageValue": ("target", "averageValue"),
            "container": ("container",),
        },
    },
    "current": {
        "external": {
            "metricName": ("metric", "name"),
            "metricSelector": ("metric", "selector"),
            "currentValue": ("current", "value"),
            "currentAverageValue": ("current", "averageValue"),
        },
        "object": {
            "target": ("describedObject",),
            "metricName": ("metric", "name"),
            "currentValue": ("current", "value"),
            "selector": ("metric", "selector"),
            "averageValue": ("current", "averageValue"),
        },
        "pods": {
            "metricName": ("metric", "name"),
            "currentAverageValue": ("current", "averageValue"),
            "selector": ("metric", "selector"),
        },
        "resource": {
            "name": ("name",),
            "currentAverageUtilization": ("current", "averageUtilization"),
            "currentAverageValue": ("current", "averageValue"),
        },
        "containerResource": {
            "name": ("name",),
            "currentAverageUtilization": ("current", "averageUtilization"),
            "currentAverageValue": ("current", "averageValue"),
            "container": ("container",),
        },
    },
}
# Fields that v1 shows as zero where v2 has nothing.
_ZERO = {"object": ("targetValue", "currentValue"), "external": ("currentValue",), "pods": ("targetAverageValue",)}
_ZERO_CURRENT = {"pods", "resource", "containerResource"}


def _source_of(metric: Obj, part: str) -> str:
    return next((source for source in _NAMES[part] if metric.get(source) is not None), "")


def _is_zero(source: str, name: str) -> bool:
    """Report whether a quantity of a metric that is absent is zero, since its type in Go is no pointer."""
    return name in _ZERO.get(source, ()) or (name == "currentAverageValue" and source in _ZERO_CURRENT)


def _old_metric(metric: Obj, part: str) -> Obj:
    source = _source_of(metric, part)
    if not source:
        return metric
    out = {}
    for name, path in _NAMES[part][source].items():
        value = nested_field(metric[source], *path)
        if value is None and _is_zero(source, name):
            value = "0"
        if value is not None:
            out[name] = value
    return {"type": metric.get("type", ""), source: out}


def _new_metric(metric: Obj, part: str) -> Obj:
    source = _source_of(metric, part)
    if not source:
        return metric
    out: Obj = {}
    for name, path in _NAMES[part][source].items():
        value = metric[source].get(name)
        if value is None and _is_zero(source, name):
            value = "0"
        if value is None:
            continue
        place = out
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    if part == "target":
        target = out.setdefault("target", {})
        target["type"] = _target_type(source, target)
    return {"type": metric.get("type", ""), source: out}


def _target_type(source: str, target: Obj) -> str:
    if source in ("resource", "containerResource"):
        return "Utilization" if target.get("averageUtilization") is not None else "AverageValue"
    if source == "external":
        return "Value" if target.get("value") is not None else "AverageValue"
    return "AverageValue" if source == "pods" or target.get("averageValue") is not None else "Value"
