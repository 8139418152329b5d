"""Conversion of autoscalers to autoscaling/v1, which has a CPU target in the spec and everything else in annotations.

spec.metrics         targetCPUUtilizationPercentage (the first of CPU), others autoscaling.alpha.kubernetes.io/metrics
spec.behavior        autoscaling.alpha.kubernetes.io/behavior, with the field names of the Go type
status.currentMetrics, status.conditions      …/current-metrics, …/conditions
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import orjson

from understudy.kinds.declarations.kind import Conversion
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.serializer.json import DecodeError, decode_value
from understudy.machinery.typeinfo.go_types import List, Schemas, Shape, Struct
from understudy.machinery.types import Obj, nested_field

_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT, CONDITIONS, BEHAVIOR = (
    _PREFIX + name for name in ("metrics", "current-metrics", "conditions", "behavior")
)
ANNOTATIONS = (METRICS, CURRENT, CONDITIONS, BEHAVIOR)
# Whether a metric of an object keeps the value zero, which v1 cannot leave out, besides an average value.
_KEEPS_ZERO = ByRelease({V1_36: False, V1_31: True})


def conversion(version: Version) -> Conversion:
    """Return the conversion between autoscaling/v1 and the internal form in a release."""
    to, from_ = partial(to_internal, version=version), partial(from_internal, version=version)
    return Conversion(to, from_, into=lambda autoscaler, existing: to(autoscaler, existing=existing))


def cpu_metric(percent: int) -> list[Obj]:
    """Return the metrics that a CPU target in percent means."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _cpu_percent(metric: Obj, part: str) -> int | None:
    """Return the CPU utilization of a metric that is one, which v1 has a field for; None for other metrics."""
    resource = metric.get("resource") or {}
    is_cpu = metric.get("type") == "Resource" and resource.get("name") == "cpu"
    return nested_field(resource, part, "averageUtilization") if is_cpu else None


def from_internal(autoscaler: Obj, version: Version) -> Obj:
    """Return an autoscaler in the form of v1."""
    spec, status = dict(autoscaler.get("spec") or {}), dict(autoscaler.get("status") or {})
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    current, conditions = status.pop("currentMetrics", None) or [], status.pop("conditions", None)
    targets = [percent for metric in metrics if (percent := _cpu_percent(metric, "target")) is not None]
    if targets:
        spec["targetCPUUtilizationPercentage"] = targets[0]
    used = [percent for metric in current if (percent := _cpu_percent(metric, "current")) is not None]
    if used:
        status["currentCPUUtilizationPercentage"] = used[-1]
    status.setdefault("currentReplicas", 0)
    others = [_old_metric(metric, "target") for metric in metrics if _cpu_percent(metric, "target") is None]
    kept = {
        METRICS: others,
        CURRENT: [_old_metric(metric, "current") for metric in current],
        BEHAVIOR: behavior and _go_names(behavior, _behavior_type(version)),
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


def to_internal(autoscaler: Obj, version: Version, existing: Obj | None = None) -> Obj:
    """Return the internal form of a v1 autoscaler.

    existing  an internal object into which it is converted: what neither fields nor annotations give stays as it is
              there; a metric of it comes after those of the annotation, and empty ones, as many as it had further ones
    """
    spec, status = deepcopy(autoscaler.get("spec") or {}), deepcopy(autoscaler.get("status") or {})
    kept_spec, kept_status = _kept(nested_field(autoscaler, "metadata", "annotations", default={}), version)
    percent, used = (
        spec.pop("targetCPUUtilizationPercentage", None),
        status.pop("currentCPUUtilizationPercentage", None),
    )
    had, had_status = deepcopy((existing or {}).get("spec") or {}), deepcopy((existing or {}).get("status") or {})
    metrics = (had.get("metrics") or []) if percent is None else cpu_metric(percent)
    if "metrics" in kept_spec:
        metrics = [*kept_spec.pop("metrics"), *metrics[:1], *({"type": ""} for _ in metrics[1:])]
    spec |= {"metrics": metrics or cpu_metric(80), **_present(had, "behavior"), **kept_spec}
    if used is not None:
        cpu = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}}
        had_status["currentMetrics"] = [cpu]
    status |= {"currentMetrics": None, **_present({**had_status, **kept_status}, "currentMetrics", "conditions")}
    if status.get("currentReplicas") == 0:
        del status["currentReplicas"]
    return {**autoscaler, "metadata": _annotated(autoscaler.get("metadata") or {}, {}), "spec": spec, "status": status}


def _present(fields: Obj, *names: str) -> Obj:
    """Return those of some fields that are set and not empty."""
    return {name: fields[name] for name in names if fields.get(name)}


def _kept(annotations: dict[str, str], version: Version) -> tuple[Obj, Obj]:
    """Return the parts of the spec and of the status that annotations keep; those that Go cannot decode are ignored."""
    spec = {
        **_decoded(annotations, METRICS, "spec", "metrics", version),
        **_decoded(annotations, BEHAVIOR, "spec", "behavior", version),
    }
    if not any((spec.get("behavior") or {}).values()):
        spec.pop("behavior", None)
    if not _KEEPS_ZERO[version]:
        for metric in spec.get("metrics", ()):
            _drop_zero(nested_field(metric, "object", "target", default={}))
    status = {
        **_decoded(annotations, CURRENT, "status", "currentMetrics", version),
        **_decoded(annotations, CONDITIONS, "status", "conditions", version),
    }
    return spec, status


def _drop_zero(target: Obj) -> None:
    if target.get("value") == "0" and target.get("averageValue") is not None:
        del target["value"]


def _decoded(annotations: dict[str, str], key: str, part: str, name: str, version: Version) -> Obj:
    """Return the field that an annotation keeps, in the form of v2, [] for an empty one; {} without the annotation, and
    for a value of a wrong type."""
    struct = Schemas.of(version).kind("autoscaling", "v2", "HorizontalPodAutoscaler")
    try:
        value = orjson.loads(annotations[key])
        if key in (METRICS, CURRENT) and isinstance(value, list):
            value = [_new_metric(metric, "target" if key == METRICS else "current") for metric in value]
        elif key == BEHAVIOR:
            value = _json_names(value, _behavior_type(version))
        obj, _ = decode_value({part: {name: value}}, struct)
    except (KeyError, orjson.JSONDecodeError, DecodeError):
        return {}
    return {name: obj[part].get(name) or []}


def _behavior_type(version: Version) -> Struct:
    return Schemas.of(version).struct("k8s.io/api/autoscaling/v2.HorizontalPodAutoscalerBehavior")


def _go_names(value: Any, shape: Shape) -> Any:
    """Return a value with all of Go's fields, by their Go names: the type that upstream encodes has no JSON tags."""
    if isinstance(shape, Struct) and value is not None:
        return {field.go_name: _go_names(value.get(name), field.type) for name, field in shape.fields.items()}
    return [_go_names(item, shape.element) for item in value] if isinstance(shape, List) and value else value


def _json_names(value: Any, shape: Shape) -> Any:
    """Return a value with JSON names for Go's field names, whose case does not matter."""
    if isinstance(shape, Struct) and isinstance(value, dict):
        sent = _lowered(value)
        fields = [(name, field) for name, field in shape.fields.items() if field.go_name.lower() in sent]
        return {name: _json_names(sent[field.go_name.lower()], field.type) for name, field in fields}
    if isinstance(shape, List) and isinstance(value, list):
        return [_json_names(item, shape.element) for item in value]
    return value


def _lowered(value: Obj) -> Obj:
    return {key.lower(): item for key, item in value.items()}


# The v1 names of what v2 has in `target` (of a spec) and `current` (of a status), by source of the metric:
# {source: {v1 name: path in v2}}
_NAMES: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "target": {
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
        "external": {
            "metricName": ("metric", "name"),
            "metricSelector": ("metric", "selector"),
            "targetValue": ("target", "value"),
            "targetAverageValue": ("target", "averageValue"),
        },
    },
    "current": {
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
        "external": {
            "metricName": ("metric", "name"),
            "metricSelector": ("metric", "selector"),
            "currentValue": ("current", "value"),
            "currentAverageValue": ("current", "averageValue"),
        },
    },
}
# Fields that v1 shows as zero where v2 has nothing.
_ZERO = {"object": ("targetValue", "currentValue"), "external": ("currentValue",), "pods": ("targetAverageValue",)}
_ZERO_CURRENT = {"pods", "resource", "containerResource"}


def _is_zero(source: str, name: str) -> bool:
    """Report whether a quantity of a metric that is absent is zero, since its type in Go is no pointer."""
    return name in _ZERO.get(source, ()) or (name == "currentAverageValue" and source in _ZERO_CURRENT)


def _old_metric(metric: Obj, part: str) -> Obj:
    """Return a metric of v2 in the form of v1, its sources in Go's order."""
    out: Obj = {"type": metric.get("type", "")}
    for source, names in _NAMES[part].items():
        if metric.get(source) is not None:
            values = {name: _value(nested_field(metric[source], *path), source, name) for name, path in names.items()}
            out[source] = {name: value for name, value in values.items() if value is not None}
    return out


def _value(value: Any, source: str, name: str) -> Any:
    return "0" if value is None and _is_zero(source, name) else value


def _new_metric(metric: Any, part: str) -> Any:
    """Return a metric of v1 in the form of v2. What is no object, and cannot be decoded, stays as it is."""
    if not isinstance(metric, dict):
        return metric
    sent = _lowered(metric)
    out: Obj = {"type": sent.get("type", "")}
    for source in _NAMES[part]:
        old = sent.get(source.lower())
        if old is not None:
            out[source] = _new_source(_lowered(old), source, part) if isinstance(old, dict) else old
    return out


def _new_source(old: Obj, source: str, part: str) -> Obj:
    out: Obj = {}
    for name, path in _NAMES[part][source].items():
        value = _value(old.get(name.lower()), source, name)
        if value is None:
            continue
        place = out
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    if part == "target":
        target = out.setdefault("target", {})
        target["type"] = _target_type(source, target)
    return out


def _target_type(source: str, target: Obj) -> str:
    if source in ("resource", "containerResource"):
        return "Utilization" if target.get("averageUtilization") is not None else "AverageValue"
    if source == "external":
        return "Value" if target.get("value") is not None else "AverageValue"
    return "AverageValue" if source == "pods" or target.get("averageValue") is not None else "Value"
