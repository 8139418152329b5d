"""Horizontal pod autoscalers, in the form of autoscaling/v2: defaults, strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.autoscaling import v1, validation
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, UNKNOWN, UNSET, age, name, shortened
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.declarations.strategies import resource_strategy, status_strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, default_if_nil, nested_field

CPU_PERCENT = 80
SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}

# {type of a metric: (its field, whether it measures a resource)}
SOURCES = {
    "External": ("external", False),
    "Pods": ("pods", False),
    "Object": ("object", False),
    "Resource": ("resource", True),
    "ContainerResource": ("containerResource", True),
}


def _metric(spec: Obj, status: Obj) -> str:
    """Return one metric as text: `cpu: 10%/80%` (upstream: `formatHPAMetrics`)."""
    source, of_resource = SOURCES.get(spec.get("type", ""), ("", False))
    if not source:
        return "<unknown type>"
    target = nested_field(spec, source, "target", default={})
    current = nested_field(status, source, "current")
    if of_resource:
        return f"{nested_field(spec, source, 'name', default='')}: {_resource_metric(target, current)}"
    if source == "pods" or target.get("averageValue") is None:
        key, suffix = ("averageValue", "") if source == "pods" else ("value", "")
        now = UNKNOWN if current is None else nested_field(current, key, default="<nil>")
    else:
        key, suffix = "averageValue", " (avg)"
        now = nested_field(current, key, default=UNKNOWN)
    return f"{now}/{nested_field(target, key, default='<nil>')}{suffix}"


def _resource_metric(target: Obj, current: Obj | None) -> str:
    """Return the current and the target value of a resource metric."""
    if target.get("averageValue") is not None:
        now = UNKNOWN if current is None else nested_field(current, "averageValue", default="<nil>")
        return f"{now}/{target['averageValue']}"
    expected, now = target.get("averageUtilization"), nested_field(current, "averageUtilization")
    return f"{UNKNOWN if now is None else f'{now}%'}/{'<auto>' if expected is None else f'{expected}%'}"


def _metrics(autoscaler: Obj) -> str:
    """Return the targets cell: up to two metrics."""
    specs = nested_field(autoscaler, "spec", "metrics", default=[])
    statuses = nested_field(autoscaler, "status", "currentMetrics", default=[])
    texts = [_metric(spec, statuses[i] if i < len(statuses) else {}) for i, spec in enumerate(specs)]
    return shortened(texts, 2, separator=", ") or NONE


def _row(autoscaler: Obj, now: float) -> list[Any]:
    """Return the cells of an autoscaler."""
    spec = autoscaler.get("spec", {})
    target, minimum = nested_field(spec, "scaleTargetRef", default={}), spec.get("minReplicas")
    return [
        name(autoscaler),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(autoscaler),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas", 0),
        nested_field(autoscaler, "status", "currentReplicas", default=0),
        age(autoscaler, now),
    ]


def _defaults(autoscaler: Obj, ctx: Context) -> None:
    """Set the defaults of an autoscaler, in place (upstream: `SetDefaults_HorizontalPodAutoscaler`)."""
    spec = autoscaler.setdefault("spec", {})
    default_if_nil(spec, "minReplicas", 1)
    if ctx.version == "v1":
        return  # the conversion adds the metrics: it knows all of them
    if not spec.get("metrics"):
        spec["metrics"] = v1.cpu_metric(CPU_PERCENT)
    _default_behavior(autoscaler, ctx)


def _default_behavior(autoscaler: Obj, ctx: Context) -> None:
    """Set the defaults of the scaling rules, in place; those of a v1 object get them when the stored object is read."""
    behavior = nested_field(autoscaler, "spec", "behavior")
    if behavior is not None:
        for direction, defaults in (("scaleUp", SCALE_UP), ("scaleDown", SCALE_DOWN)):
            scaling = behavior.get(direction)
            sent = {key: value for key, value in (scaling or {}).items() if value is not None}
            filled = (defaults | sent).items()  # but for lists that were sent empty, which is invalid
            behavior[direction] = {k: v for k, v in filled if k in sent or not was_sent_empty(scaling, k)}


def _rules(autoscaler: Obj) -> list[Obj]:
    """Return the scaling rules of an autoscaler, for up and down."""
    behavior = nested_field(autoscaler, "spec", "behavior", default={})
    return [rules for rules in (behavior.get("scaleDown"), behavior.get("scaleUp")) if rules is not None]


def _take_tolerances(autoscaler: Obj) -> None:
    for rules in _rules(autoscaler):
        rules.pop("tolerance", None)


_GUARDS = (
    Guard(
        features.HPA_CONFIGURABLE_TOLERANCE,
        lambda autoscaler: any(rules.get("tolerance") is not None for rules in _rules(autoscaler)),
        _take_tolerances,
    ),
)


def _drop_tolerances(autoscaler: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of an autoscaler that the stored one does not have."""
    drop_disabled_fields(_GUARDS, autoscaler, old, ctx.gates)


def _create(autoscaler: Obj, ctx: Context) -> None:
    """Prepare a new autoscaler."""
    if ctx.gates[features.HPA_GENERATION]:
        autoscaler["metadata"]["generation"] = 1
    _drop_tolerances(autoscaler, None, ctx)


def _update(autoscaler: Obj, old: Obj, ctx: Context) -> None:
    """Prepare a changed autoscaler: the generation counts changes of its spec."""
    _drop_tolerances(autoscaler, old, ctx)
    if ctx.gates[features.HPA_GENERATION] and not semantic_deep_equal(autoscaler["spec"], old["spec"]):
        autoscaler["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("autoscaling", "HorizontalPodAutoscaler"): Behavior(
            conversions={"v1": v1.conversion(version)},
            defaults=_defaults,
            strategy=resource_strategy(
                "autoscaling",
                "v2",
                "HorizontalPodAutoscaler",
                _create,
                prepare_update=_update,
                validate=validation.create,
                validate_update=all_of(CORE.updated, validation.update),
                canonicalize=_default_behavior,
            ),
            status=status_strategy(validate_update=all_of(CORE.updated, validation.status_update)),
            table_row=_row,
        )
    }
