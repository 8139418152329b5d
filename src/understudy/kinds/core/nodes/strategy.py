"""Nodes: defaults, strategies, table cells."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, UNKNOWN, age, name
from understudy.kinds.context import Context
from understudy.kinds.core import resource_lists
from understudy.kinds.core.nodes import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import STATUS_RESET, copy_stored, status_strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, nested_field

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def _roles(node: Obj) -> str:
    """Return the roles in a node's labels (upstream: `findNodeRoles`)."""
    roles = set()
    for key, value in nested_field(node, "metadata", "labels", default={}).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE:
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _status(node: Obj) -> str:
    """Return the status cell: `Ready,SchedulingDisabled`."""
    conditions = {c["type"]: c.get("status") for c in nested_field(node, "status", "conditions", default=[])}
    ready = "Unknown"
    if "Ready" in conditions:
        ready = "Ready" if conditions["Ready"] == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if nested_field(node, "spec", "unschedulable") else ready


def _address(node: Obj, kind: str) -> str:
    """Return the first address of a type, `<none>` without one."""
    addresses = [
        a.get("address", "") for a in nested_field(node, "status", "addresses", default=[]) if a.get("type") == kind
    ]
    return addresses[0] if addresses else NONE


def _kernel(info: Obj) -> str:
    """Return the kernel's version with the architecture, which is shown from 1.36 on."""
    architecture = info.get("architecture")
    return f"{_kernel_version(info)} ({architecture})" if architecture else _kernel_version(info)


def _kernel_version(info: Obj) -> str:
    return info.get("kernelVersion") or UNKNOWN


_KERNEL = ByRelease({V1_36: _kernel, V1_31: _kernel_version})


def _row(node: Obj, now: float, version: Version) -> list[Any]:
    """Return the cells of a node (upstream: `printNode`)."""
    info = nested_field(node, "status", "nodeInfo", default={})
    return [
        name(node),
        _status(node),
        _roles(node),
        age(node, now),
        info.get("kubeletVersion", ""),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        _KERNEL[version](info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _default_allocatable(node: Obj, ctx: Context) -> None:
    """Make allocatable the capacity, in place; an empty map becomes it when the stored node is read."""
    status = node["status"]
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _defaults(node: Obj, ctx: Context) -> None:
    """Set the defaults of a node, in place."""
    status = node.setdefault("status", {})
    if not was_sent_empty(status, "allocatable"):
        _default_allocatable(node, ctx)
    resource_lists.round_up(status, "capacity", "allocatable")
    spec = node.setdefault("spec", {})
    _mirror_cidrs(spec)


def _mirror_cidrs(spec: Obj) -> None:
    """Set podCIDR to the first of podCIDRs, and the other way round; where they differ podCIDR wins."""
    first, cidrs = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and (not cidrs or cidrs[0] != first):
        spec["podCIDRs"] = [first]
    elif cidrs and not first:
        spec["podCIDR"] = cidrs[0]


def _drop(node: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop the configuration by an object, which kubelets no longer support, unless the stored node has it."""
    if nested_field(old, "spec", "configSource") is None:
        node["spec"].pop("configSource", None)
    if nested_field(old, "status", "config") is None:
        node.get("status", {}).pop("config", None)


_GUARDS = (
    field_guard(features.SUPPLEMENTAL_GROUPS_POLICY, "status", "features"),
    field_guard(features.NODE_DECLARED_FEATURES, "status", "declaredFeatures"),
    field_guard(features.IN_PLACE_POD_VERTICAL_SCALING_SCHEDULER_PREEMPTION, "spec", "podPreemptionPolicy"),
)


def _create(node: Obj, ctx: Context) -> None:
    """Prepare a new node, whose status may be set, too."""
    _drop(node, None, ctx)
    drop_disabled_fields(_GUARDS, node, None, ctx.gates)


def _update(node: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated node: keep its status, drop disabled fields."""
    copy_stored(node, old, "status")
    _drop(node, old, ctx)
    drop_disabled_fields(_GUARDS, node, old, ctx.gates)


NODES = Behavior(
    defaults=_defaults,
    strategy=Strategy(
        prepare_for_create=_create,
        prepare_for_update=_update,
        validate=validation.create,
        validate_update=all_of(as_on_create(CORE.created, validation.create), CORE.updated, validation.changed),
        warn_create=validation.warn,
        warn_update=lambda node, old, ctx: validation.warn(node, ctx),
        canonicalize=_default_allocatable,
        reset_fields=STATUS_RESET,
    ),
    status=status_strategy(
        _drop, validate_update=all_of(CORE.updated, validation.changed), canonicalize=_default_allocatable
    ),
    selectable={"spec.unschedulable": lambda node: "true" if nested_field(node, "spec", "unschedulable") else "false"},
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "Node"): replace(NODES, table_row=partial(_row, version=version)),
    }
