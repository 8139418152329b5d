"""Persistent volumes and claims: defaults, strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create, until
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import UNSET, age, name
from understudy.kinds.context import Context
from understudy.kinds.core import resource_lists
from understudy.kinds.core.persistent_volumes import volume_warnings
from understudy.kinds.core.pods import pod_defaults
from understudy.kinds.core.pods.volumes import persistent_volumes
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.declarations.strategies import resource_strategy, status_strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field

ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str]) -> str:
    """Return access modes as a cell: `RWO,ROX`."""
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in modes)


def _phase(volume: Obj) -> str:
    """Return the phase of a volume or a claim, Terminating while it is deleted."""
    deleting = nested_field(volume, "metadata", "deletionTimestamp")
    return "Terminating" if deleting else nested_field(volume, "status", "phase", default="")


def _volume_row(volume: Obj, now: float) -> list[Any]:
    spec = volume.get("spec", {})
    claim = spec.get("claimRef")
    return [
        name(volume),
        nested_field(spec, "capacity", "storage", default="0"),
        _modes(spec.get("accessModes") or []),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        persistent_volumes.class_of(volume),
        nested_field(spec, "volumeAttributesClassName", default=UNSET),
        nested_field(volume, "status", "reason", default=""),
        age(volume, now),
        nested_field(spec, "volumeMode", default=UNSET),
    ]


def _claim_row(claim: Obj, now: float) -> list[Any]:
    spec, status = claim.get("spec", {}), claim.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        name(claim),
        _phase(claim),
        spec.get("volumeName", ""),
        nested_field(status, "capacity", "storage", default="0") if bound else "",
        _modes(status.get("accessModes") or []) if bound else "",
        persistent_volumes.class_of(claim),
        nested_field(spec, "volumeAttributesClassName", default=UNSET),
        age(claim, now),
        nested_field(spec, "volumeMode", default=UNSET),
    ]


def _default_volume(volume: Obj, ctx: Context) -> None:
    """Set the defaults of a PersistentVolume, in place."""
    spec, current_status = volume.setdefault("spec", {}), volume.setdefault("status", {})
    current_status["phase"] = current_status.get("phase") or "Pending"
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    default_if_nil(spec, "volumeMode", "Filesystem")
    resource_lists.round_up(spec, "capacity")
    pod_defaults.volume_source(spec)


def default_claim(claim: Obj, ctx: Context) -> None:
    """Set the defaults of a PersistentVolumeClaim, or of a claim template of a stateful set."""
    pod_defaults.claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    resource_lists.round_up(status, "capacity", "allocatedResources")


def _drop_reference_to_other_namespace(claim: Obj) -> None:
    if nested_field(claim, "spec", "dataSourceRef", "namespace"):
        del claim["spec"]["dataSourceRef"]


_VOLUME_GUARDS = (field_guard(features.VOLUME_ATTRIBUTES_CLASS, "spec", "volumeAttributesClassName"),)
_CLAIM_GUARDS = (
    *_VOLUME_GUARDS,
    Guard(
        features.CROSS_NAMESPACE_VOLUME_DATA_SOURCE,
        lambda claim: bool(nested_field(claim, "spec", "dataSourceRef")),
        _drop_reference_to_other_namespace,
    ),
)
_CLAIM_STATUS_GUARDS = (
    field_guard(features.VOLUME_ATTRIBUTES_CLASS, "status", "currentVolumeAttributesClassName"),
    field_guard(features.VOLUME_ATTRIBUTES_CLASS, "status", "modifyVolumeStatus"),
    field_guard(features.RECOVER_VOLUME_EXPANSION_FAILURE, "status", "allocatedResources"),
    field_guard(features.RECOVER_VOLUME_EXPANSION_FAILURE, "status", "allocatedResourceStatuses"),
    field_guard(features.CSI_VOLUME_HEALTH, "status", "healthStatus"),
)


def _drop_volume_fields(volume: Obj, old: Obj | None, ctx: Context) -> None:
    drop_disabled_fields(_VOLUME_GUARDS, volume, old, ctx.gates)


def _prepare_new_volume(volume: Obj, ctx: Context) -> None:
    """Prepare a new volume."""
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}
    _drop_volume_fields(volume, None, ctx)


def _prepare_new_claim(claim: Obj, ctx: Context) -> None:
    """Prepare a new claim."""
    claim["status"] = {}  # the phase is a default, which is not stored
    _prepare_claim(claim, None, ctx)


def _prepare_claim(claim: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a claim, and sync its two data sources (upstream: `DropDisabledFields`,
    `NormalizeDataSources`)."""
    spec, before = claim["spec"], (old or {}).get("spec") or {}
    drop_disabled_fields(_CLAIM_GUARDS, claim, old, ctx.gates)
    source = spec.get("dataSource")
    if source is not None and not before.get("dataSource") and not spec.get("dataSourceRef"):
        if (source.get("apiGroup") or "", source.get("kind")) not in OLD_SOURCES:
            del spec["dataSource"]
    _normalize_data_sources(spec)


# Kinds that dataSource may refer to; a reference to another is dropped.
OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _normalize_data_sources(spec: Obj) -> None:
    """Set dataSource and the newer dataSourceRef to the same; a reference to another namespace has no old form."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}


def _drop_claim_status(claim: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of a claim's status that the stored claim does not have."""
    drop_disabled_fields(_CLAIM_STATUS_GUARDS, claim, old, ctx.gates)


def _set_phase_transition_time(volume: Obj, old: Obj, ctx: Context) -> None:
    """Set the time of a phase transition, unless the client sends one."""
    current_status, before = volume.setdefault("status", {}), old.get("status", {})
    time, old_time = current_status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if current_status.get("phase") == before.get("phase"):
        if time is None and old_time is not None:
            current_status["lastPhaseTransitionTime"] = old_time
    elif time is None or time == old_time:
        current_status["lastPhaseTransitionTime"] = ctx.now


_VOLUME = all_of(as_on_create(CORE.created), persistent_volumes.changed_volume)
_CLAIM = as_on_create(CORE.created, persistent_volumes.claim)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "PersistentVolume"): Behavior(
            defaults=_default_volume,
            strategy=resource_strategy(
                "",
                "v1",
                "PersistentVolume",
                _prepare_new_volume,
                prepare_update=_drop_volume_fields,
                validate=persistent_volumes.volume,
                warn_create=volume_warnings.volume,
                warn_update=lambda volume, old, ctx: volume_warnings.volume(volume, ctx),
                validate_update=all_of(_VOLUME, _VOLUME, persistent_volumes.volume_changes),
            ),
            status=status_strategy(_set_phase_transition_time, validate_update=CORE.updated),
            table_row=_volume_row,
            delete_returns_object=True,
        ),
        ("", "PersistentVolumeClaim"): Behavior(
            defaults=default_claim,
            strategy=resource_strategy(
                "",
                "v1",
                "PersistentVolumeClaim",
                _prepare_new_claim,
                validate=persistent_volumes.claim,
                warn_create=volume_warnings.claim,
                warn_update=lambda claim, old, ctx: volume_warnings.claim(claim, ctx),
                validate_update=all_of(until(V1_35, _CLAIM), CORE.updated, _CLAIM, persistent_volumes.claim_changes),
                prepare_update=_prepare_claim,
            ),
            status=status_strategy(
                _drop_claim_status, validate_update=all_of(CORE.updated, persistent_volumes.claim_status_update)
            ),
            table_row=_claim_row,
            delete_returns_object=True,
            defaulted_on_read=True,
        ),
    }
