"""Persistent volumes and claims."""

from __future__ import annotations

from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.compose import all_of, as_on_create
from understudy.admission.validation.core.volumes import persistent_volumes, volume_warnings
from understudy.admission.validation.objectmeta import CORE
from understudy.apiserver.kinds.common import main, status
from understudy.apiserver.kinds.core import pod_defaults, resource_lists
from understudy.apiserver.kinds.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.apiserver.kinds.printers import UNSET, age, name
from understudy.apiserver.registry.kind import Behavior
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, at, set_absent

ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(found: list[str]) -> str:
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in found)


def _phase(volume: Obj) -> str:
    deleting = at(volume, "metadata", "deletionTimestamp")
    return "Terminating" if deleting else at(volume, "status", "phase", default="")


def _volume_row(volume: Obj, now: float) -> list[Any]:
    spec = volume.get("spec", {})
    claim = spec.get("claimRef")
    return [
        name(volume),
        at(spec, "capacity", "storage", default="0"),
        _modes(spec.get("accessModes") or []),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        persistent_volumes.class_of(volume),
        at(spec, "volumeAttributesClassName", default=UNSET),
        at(volume, "status", "reason", default=""),
        age(volume, now),
        at(spec, "volumeMode", default=UNSET),
    ]


def _claim_row(claim: Obj, now: float) -> list[Any]:
    spec, status = claim.get("spec", {}), claim.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        name(claim),
        _phase(claim),
        spec.get("volumeName", ""),
        at(status, "capacity", "storage", default="0") if bound else "",
        _modes(status.get("accessModes") or []) if bound else "",
        persistent_volumes.class_of(claim),
        at(spec, "volumeAttributesClassName", default=UNSET),
        age(claim, now),
        at(spec, "volumeMode", default=UNSET),
    ]


def _default_volume(volume: Obj, ctx: Context) -> None:
    spec, found = volume.setdefault("spec", {}), volume.setdefault("status", {})
    found["phase"] = found.get("phase") or "Pending"
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    set_absent(spec, "volumeMode", "Filesystem")
    resource_lists.round_up(spec, "capacity")
    pod_defaults.volume_source(spec)


def default_claim(claim: Obj, ctx: Context) -> None:
    """Set the defaults of a PersistentVolumeClaim, or of a claim template of a stateful set."""
    pod_defaults.claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    resource_lists.round_up(status, "capacity", "allocatedResources")


def _drop_reference_to_other_namespace(claim: Obj) -> None:
    if at(claim, "spec", "dataSourceRef", "namespace"):
        del claim["spec"]["dataSourceRef"]


_VOLUME_GUARDS = (field_guard(features.VOLUME_ATTRIBUTES_CLASS, "spec", "volumeAttributesClassName"),)
_CLAIM_GUARDS = (
    *_VOLUME_GUARDS,
    Guard(
        features.CROSS_NAMESPACE_VOLUME_DATA_SOURCE,
        lambda claim: bool(at(claim, "spec", "dataSourceRef")),
        _drop_reference_to_other_namespace,
    ),
)
_CLAIM_STATUS_GUARDS = (
    field_guard(features.VOLUME_ATTRIBUTES_CLASS, "status", "currentVolumeAttributesClassName"),
    field_guard(features.VOLUME_ATTRIBUTES_CLASS, "status", "modifyVolumeStatus"),
    field_guard(features.RECOVER_VOLUME_EXPANSION_FAILURE, "status", "allocatedResources"),
    field_guard(features.RECOVER_VOLUME_EXPANSION_FAILURE, "status", "allocatedResourceStatuses"),
)


def _drop_volume_fields(volume: Obj, old: Obj | None, ctx: Context) -> None:
    drop_disabled_fields(_VOLUME_GUARDS, volume, old, ctx.gates)


def _new_volume(volume: Obj, ctx: Context) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": ctx.now}
    _drop_volume_fields(volume, None, ctx)


def _new_claim(claim: Obj, ctx: Context) -> None:
    claim["status"] = {"phase": "Pending"}
    _prepare_claim(claim, None, ctx)


def _prepare_claim(claim: Obj, old: Obj | None, ctx: Context) -> None:
    spec, before = claim["spec"], (old or {}).get("spec") or {}
    drop_disabled_fields(_CLAIM_GUARDS, claim, old, ctx.gates)
    source = spec.get("dataSource")
    if source is not None and not before.get("dataSource") and not spec.get("dataSourceRef"):
        if (source.get("apiGroup") or "", source.get("kind")) not in OLD_SOURCES:
            del spec["dataSource"]
    _one_source(spec)


# What dataSource could always refer to; anything else was ignored, and is.
OLD_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _one_source(spec: Obj) -> None:
    """dataSource and the newer dataSourceRef say the same; a reference across namespaces has no old form."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}


def _drop_claim_status(claim: Obj, old: Obj, ctx: Context) -> None:
    drop_disabled_fields(_CLAIM_STATUS_GUARDS, claim, old, ctx.gates)


def _phase_changed(volume: Obj, old: Obj, ctx: Context) -> None:
    """A new phase has its time, unless the client says one."""
    found, before = volume.setdefault("status", {}), old.get("status", {})
    time, then = found.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if found.get("phase") == before.get("phase"):
        if time is None and then is not None:
            found["lastPhaseTransitionTime"] = then
    elif time is None or time == then:
        found["lastPhaseTransitionTime"] = ctx.now


_VOLUME = as_on_create(CORE.created, persistent_volumes.volume)
_CLAIM = as_on_create(CORE.created, persistent_volumes.claim)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """By (group, kind)."""
    return {
        ("", "PersistentVolume"): Behavior(
            defaults=_default_volume,
            strategy=main(
                "",
                "v1",
                "PersistentVolume",
                _new_volume,
                prepare_update=_drop_volume_fields,
                validate=persistent_volumes.volume,
                warn_create=volume_warnings.volume,
                warn_update=lambda volume, old, ctx: volume_warnings.volume(volume, ctx),
                validate_update=all_of(_VOLUME, _VOLUME, persistent_volumes.volume_changes),
            ),
            status=status(_phase_changed, validate_update=CORE.updated),
            table_row=_volume_row,
            delete_returns_object=True,
        ),
        ("", "PersistentVolumeClaim"): Behavior(
            defaults=default_claim,
            strategy=main(
                "",
                "v1",
                "PersistentVolumeClaim",
                _new_claim,
                validate=persistent_volumes.claim,
                warn_create=volume_warnings.claim,
                warn_update=lambda claim, old, ctx: volume_warnings.claim(claim, ctx),
                validate_update=all_of(_CLAIM, CORE.updated, _CLAIM, persistent_volumes.claim_changes),
                prepare_update=_prepare_claim,
            ),
            status=status(
                _drop_claim_status, validate_update=all_of(CORE.updated, persistent_volumes.claim_status_update)
            ),
            table_row=_claim_row,
            delete_returns_object=True,
        ),
    }
