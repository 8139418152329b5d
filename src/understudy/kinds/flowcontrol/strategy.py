"""Flow schemas and priority levels: what may be stored, and how they are shown."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import Check, as_on_create
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, age, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Conversion, Strategy
from understudy.kinds.declarations.strategies import METADATA_RESET, resource_strategy, status_strategy
from understudy.kinds.flowcontrol import validation
from understudy.kinds.flowcontrol.mandatory import mandatory_objects
from understudy.kinds.flowcontrol.validation import PRESERVE_ZERO
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, default_if_nil, default_if_zero, nested_field

GROUP = "flowcontrol.apiserver.k8s.io"
SHARES = {"exempt": 0, "limited": 30}
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _default_schema(schema: Obj, ctx: Context) -> None:
    """Set the defaults of a flow schema, in place."""
    default_if_zero(schema.setdefault("spec", {}), {"matchingPrecedence": 1000})


def _default_level(level: Obj, ctx: Context) -> None:
    """Set the defaults of a priority level, in place (upstream: `SetDefaults_LimitedPriorityLevelConfiguration`, …)."""
    spec = level.setdefault("spec", {})
    if ctx.version == "v1beta3":
        _default_v1beta3_level(level)
    for kind, shares in SHARES.items():
        values = spec.get(kind)
        if values is not None:
            default_if_nil(values, "nominalConcurrencyShares", shares)
            default_if_nil(values, "lendablePercent", 0)
    queuing = nested_field(spec, "limited", "limitResponse", "queuing")
    if queuing is not None:
        default_if_zero(queuing, QUEUING)


def _default_v1beta3_level(level: Obj) -> None:
    """Set the default shares of a v1beta3 priority level: 0 means unset unless `roundtrip-preserve-zero` is set.

    The annotation is kept on a zero only.
    """
    limited, zero = (
        nested_field(level, "spec", "limited", default={}),
        nested_field(level, "metadata", "annotations", default={}),
    )
    default_if_zero(limited, {"nominalConcurrencyShares": 0 if PRESERVE_ZERO in zero else SHARES["limited"]})
    level["metadata"] = _annotated(level, _is_zero(level))["metadata"]


def precedence(schema: Obj) -> tuple[int, str]:
    """Return the sort key of flow schemas in the order in which requests are matched, which tables have as well."""
    return schema["spec"]["matchingPrecedence"], name(schema)


def _schema_row(schema: Obj, now: float) -> list[Any]:
    """Return the cells of a flow schema."""
    spec = schema.get("spec", {})
    dangling = [c for c in nested_field(schema, "status", "conditions", default=[]) if c.get("type") == "Dangling"]
    return [
        name(schema),
        nested_field(spec, "priorityLevelConfiguration", "name", default=""),
        spec.get("matchingPrecedence", 0),
        nested_field(spec, "distinguisherMethod", "type", default=NONE),
        age(schema, now),
        dangling[0].get("status", "") if dangling else "?",
    ]


def _level_row(level: Obj, now: float) -> list[Any]:
    """Return the cells of a priority level."""
    limited = nested_field(level, "spec", "limited")
    queuing = nested_field(limited, "limitResponse", "queuing")
    return [
        name(level),
        nested_field(level, "spec", "type", default=""),
        NONE if limited is None else limited.get("nominalConcurrencyShares", 0),
        *(NONE if queuing is None else queuing.get(key, 0) for key in QUEUING),
        age(level, now),
    ]


def _annotated(level: Obj, zero: bool) -> Obj:
    """Return the level with the annotation by which v1beta3 tells a zero from an unset field, if `zero`, else without
    it."""
    metadata = dict(level["metadata"])
    annotations = {k: v for k, v in (metadata.pop("annotations", None) or {}).items() if k != PRESERVE_ZERO}
    annotations |= {PRESERVE_ZERO: ""} if zero else {}
    return {**level, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def _is_zero(level: Obj) -> bool:
    """Report whether a level has 0 shares."""
    return bool(nested_field(level, "spec", "limited", "nominalConcurrencyShares") == 0)


OLD_LEVEL = Conversion(lambda level: _annotated(level, False), lambda level: _annotated(level, _is_zero(level)))


def _mandatory_specs(version: Version, kind: str) -> dict[str, Obj]:
    """Return the specs of the mandatory objects of a kind by name."""
    return {name: obj["spec"] for name, obj in mandatory_objects(version, kind).items()}


def _keep_all_metadata(obj: Obj, old: Obj, ctx: Context) -> None:
    """Keep the stored metadata but for managed fields, in an update of the status."""
    owners = {name: value for name, value in obj["metadata"].items() if name == "managedFields"}
    obj["metadata"] = {name: value for name, value in old["metadata"].items() if name != "managedFields"} | owners


def _strategy(kind: str, check: Check) -> Strategy:
    """Return the strategy of flow schemas or priority levels."""
    return resource_strategy(
        GROUP, "v1", kind, validate=check, validate_update=as_on_create(CORE.created, check), generation=True
    )


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    schema, level = (
        validation.schema(_mandatory_specs(version, "FlowSchema")),
        validation.level(_mandatory_specs(version, "PriorityLevelConfiguration")),
    )
    kept = status_strategy(
        _keep_all_metadata,
        validate_update=as_on_create(validation.conditions),
        reset_fields=METADATA_RESET,
    )
    return {
        (GROUP, "FlowSchema"): Behavior(
            defaults=_default_schema,
            strategy=_strategy("FlowSchema", schema),
            status=kept,
            table_row=_schema_row,
            row_order=precedence,
        ),
        (GROUP, "PriorityLevelConfiguration"): Behavior(
            conversions={"v1beta3": OLD_LEVEL},
            defaults=_default_level,
            strategy=_strategy("PriorityLevelConfiguration", level),
            status=kept,
            table_row=_level_row,
        ),
    }
