"""ResourceSlice, DeviceTaintRule and ResourcePoolStatusRequest: strategies, field labels, table cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from understudy.kinds.common import printers
from understudy.kinds.common.compose import all_of, until
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import METADATA_RESET, STATUS_RESET
from understudy.kinds.resource.claims import defaults
from understudy.kinds.resource.common import conversions
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.kinds.resource.common.strategies import (
    SPEC,
    STATUS,
    check_spec,
    first_generation,
    keep_all_but_status,
    keep_status,
    next_generation,
)
from understudy.kinds.resource.slices import (
    devicetaintrule,
    disabled_slice_fields,
    resourcepoolstatusrequest,
    resourceslice,
)
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import parse
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors
from understudy.machinery.validation.names import go_lower


def behaviors(version: Version) -> dict[str, Behavior]:
    """Return the behavior of each of these kinds in a release, by name."""
    return {
        "ResourceSlice": replace(_SLICE, conversions=conversions.SLICE[version], selectable=_SELECTABLE[version]),
        "DeviceTaintRule": _TAINT_RULE,
        "ResourcePoolStatusRequest": _POOL_STATUS_REQUEST,
    }


# --- ResourceSlice ----------------------------------------------------------------------------------------------------


def _prepare_slice(obj: Obj, ctx: Context) -> None:
    first_generation(obj)
    disabled_slice_fields.drop_disabled(obj, None, ctx)


def _prepare_slice_update(obj: Obj, old: Obj, ctx: Context) -> None:
    """Count the generation of a slice whose spec has changed, be it in fields that are dropped then."""
    new, before = obj["spec"], old["spec"]
    if not semantic_deep_equal(new, before) and not semantic_deep_equal(_with_amounts(new), _with_amounts(before)):
        next_generation(obj, old)
    disabled_slice_fields.drop_disabled(obj, old, ctx)


def _with_amounts(spec: Obj) -> Obj:
    """Return a spec with its quantities parsed, to compare them: 1000m equals 1."""
    return {
        **spec,
        "sharedCounters": [_parsed(counters, "counters") for counters in spec.get("sharedCounters") or ()],
        "devices": [
            {
                **_parsed(device, "capacity", "nodeAllocatableResourceMappings"),
                "consumesCounters": [_parsed(use, "counters") for use in device.get("consumesCounters") or ()],
            }
            for device in spec.get("devices") or ()
        ],
    }


def _parsed(obj: Obj, *names: str) -> Obj:
    return {**obj, **{name: _amounts(obj[name]) for name in names if obj.get(name)}}


def _amounts(value: Any, name: str = "") -> Any:
    """Return a value with all texts in it parsed as quantities, but for the names of capacities."""
    if isinstance(value, dict):
        return {name: _amounts(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_amounts(item) for item in value]
    return parse(value) if isinstance(value, str) and name != "capacityKey" else value


def _slice_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourceslice.validate_spec(obj["spec"], SPEC, ReleaseRules.in_force(ctx), old["spec"])


def _warn_of_upper_case(obj: Obj, ctx: Context) -> None:
    """Warn of a driver's name in upper case."""
    driver = obj["spec"].get("driver", "")
    if ReleaseRules.of(ctx.release).warns_of_upper_case and driver != go_lower(driver):
        text = "driver names should be lowercase"
        ctx.warn(f"spec.driver: {text}; {go_quote(driver)} contains uppercase characters")


_NODE_AND_DRIVER: dict[str, Callable[[Obj], str]] = {
    "spec.nodeName": lambda obj: str(obj["spec"].get("nodeName", "")),
    "spec.driver": lambda obj: str(obj["spec"].get("driver", "")),
}
_POOL: dict[str, Callable[[Obj], str]] = {
    "spec.pool.name": lambda obj: str(nested_field(obj, "spec", "pool", "name", default="")),
}
_SELECTABLE = ByRelease({V1_37: _NODE_AND_DRIVER | _POOL, V1_31: _NODE_AND_DRIVER})
_SLICE = Behavior(
    defaults=defaults.default_slice,
    strategy=Strategy(
        prepare_for_create=_prepare_slice,
        prepare_for_update=_prepare_slice_update,
        validate=check_spec(resourceslice.validate_spec),
        validate_update=all_of(CORE.updated, _slice_changes),
        warn_create=_warn_of_upper_case,
        warn_update=lambda obj, old, ctx: _warn_of_upper_case(obj, ctx),
    ),
    unknown_field="field label not supported for {api_version}, Kind={kind}: {label}",
    table_row=printers.row(
        printers.field("spec", "nodeName"), printers.field("spec", "driver"), printers.field("spec", "pool", "name")
    ),
    delete_returns_object=True,
)


# --- DeviceTaintRule --------------------------------------------------------------------------------------------------


def _prepare_rule(obj: Obj, ctx: Context) -> None:
    if "status" in obj:
        obj["status"] = {}
    first_generation(obj)


def _prepare_rule_update(obj: Obj, old: Obj, ctx: Context) -> None:
    """Keep the status; give the taint the current time if its effect changes, unless the client changes the time."""
    keep_status(obj, old)
    taint, before = obj["spec"].get("taint") or {}, old["spec"].get("taint") or {}
    if (
        ReleaseRules.of(ctx.release).renews_time_added
        and taint.get("effect") != before.get("effect")
        and taint.get("timeAdded") == before.get("timeAdded")
    ):
        taint["timeAdded"] = ctx.now
    if not semantic_deep_equal(obj["spec"], old["spec"]):
        next_generation(obj, old)


def _rule_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return devicetaintrule.validate_spec(obj["spec"], SPEC, ReleaseRules.in_force(ctx), old["spec"])


def _rule_row(obj: Obj, now: float) -> list[Any]:
    taint = nested_field(obj, "spec", "taint", default={})
    added = printers.since(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    cells = (taint.get(name, "") for name in ("key", "value", "effect"))
    return [printers.name(obj), *cells, added, printers.age(obj, now)]


_STABLE = frozenset({"v1"})
_TAINT_RULE = Behavior(
    defaults=defaults.default_taint_rule,
    strategy=Strategy(
        prepare_for_create=_prepare_rule,
        prepare_for_update=_prepare_rule_update,
        validate=check_spec(devicetaintrule.validate_spec),
        validate_update=all_of(CORE.updated, _rule_changes),
        conditional_in=_STABLE,
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=lambda obj, old, ctx: keep_all_but_status(obj, old),
        validate_update=all_of(
            CORE.updated, lambda obj, old, ctx: devicetaintrule.validate_status(obj.get("status") or {}, STATUS)
        ),
        conditional_in=_STABLE,
        reset_fields=METADATA_RESET,
    ),
    table_row=_rule_row,
    delete_returns_object=True,
    delete_returns_status_in=_STABLE,
)


# --- ResourcePoolStatusRequest ----------------------------------------------------------------------------------------

_DEVICE_COUNTS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")


def _prepare_request(obj: Obj, ctx: Context) -> None:
    obj.pop("status", None)
    disabled_slice_fields.drop_from_request(obj, None, ctx)


def _prepare_request_update(obj: Obj, old: Obj, ctx: Context) -> None:
    keep_status(obj, old)
    disabled_slice_fields.drop_from_request(obj, old, ctx)


def _request_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourcepoolstatusrequest.validate_spec_update(obj["spec"], old["spec"], SPEC)


def _request_status_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourcepoolstatusrequest.validate_status(obj.get("status"), old.get("status"), STATUS, ctx.release)


def _request_row(obj: Obj, now: float) -> list[Any]:
    """Return the cells of a request: the totals over all pools (upstream: `printResourcePoolStatusRequest`)."""
    status = obj.get("status") or {}
    pools, count = status.get("pools") or (), status.get("poolCount") or 0
    state, completed = _state(status.get("conditions") or ())
    if state == "Complete" and count > len(pools):
        state = f"Complete ({len(pools)}/{count} pools)"
    totals = ["-"] * (len(_DEVICE_COUNTS) + 1)
    if "status" in obj and state != "Failed":
        totals = [str(sum(pool.get(name) or 0 for pool in pools)) for name in _DEVICE_COUNTS]
        totals.append(str(sum(pool.get("validationError") is not None for pool in pools)))
    ago = printers.since(completed, now) if completed is not None else printers.NONE
    return [printers.name(obj), nested_field(obj, "spec", "driver", default=""), *totals, count, state, ago]


def _state(conditions: Sequence[Obj]) -> tuple[str, str | None]:
    """Return the state of a request, and when it was completed."""
    for condition in conditions:
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            state = str(condition["type"])
            return state, condition.get("lastTransitionTime") if state == "Complete" else None
    return "Pending", None


_POOL_STATUS_REQUEST = Behavior(
    defaults=defaults.default_pool_status_request,
    strategy=Strategy(
        prepare_for_create=_prepare_request,
        prepare_for_update=_prepare_request_update,
        validate=until(V1_37, lambda obj, ctx: resourcepoolstatusrequest.validate_spec(obj["spec"], SPEC)),
        validate_update=all_of(
            CORE.updated,
            until(V1_37, _request_changes),
        ),
        unconditional_update=False,
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=lambda obj, old, ctx: keep_all_but_status(obj, old),
        validate_update=all_of(CORE.updated, _request_status_changes),
        unconditional_update=False,
        reset_fields=METADATA_RESET,
    ),
    table_row=_request_row,
    delete_returns_object=True,
)
