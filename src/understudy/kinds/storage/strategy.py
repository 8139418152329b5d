"""Kinds of storage.k8s.io: storage classes, CSI drivers and nodes, storage capacities, volume attachments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create, until
from understudy.kinds.common.default_classes import annotated, is_default_storage_class, newest_name
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import (
    NONE,
    UNSET,
    Row,
    age,
    count,
    created_at,
    field,
    name,
    name_or_default,
    row,
)
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.kinds.storage import storage_health, validation
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field

GROUP = "storage.k8s.io"
DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
}


def _default_class(storage_class: Obj, ctx: Context) -> None:
    """Set the defaults of a storage class, in place."""
    default_if_nil(storage_class, "reclaimPolicy", "Delete")
    default_if_nil(storage_class, "volumeBindingMode", "Immediate")


def _default_driver(driver: Obj, ctx: Context) -> None:
    """Set the defaults of a CSI driver, in place (upstream: `SetDefaults_CSIDriver`)."""
    spec = driver.setdefault("spec", {})
    for key, value in DRIVER_DEFAULTS.items():
        default_if_nil(spec, key, value)
    spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or ["Persistent"]
    if ctx.gates[features.SELINUX_MOUNT_READ_WRITE_ONCE_POD]:
        default_if_nil(spec, "seLinuxMount", False)
    if ctx.gates[features.VOLUME_LIMIT_SCALING]:
        default_if_nil(spec, "preventPodSchedulingIfMissing", False)


_DRIVER_GUARDS = (
    field_guard(features.SELINUX_MOUNT_READ_WRITE_ONCE_POD, "spec", "seLinuxMount"),
    field_guard(features.MUTABLE_CSI_NODE_ALLOCATABLE_COUNT, "spec", "nodeAllocatableUpdatePeriodSeconds"),
    field_guard(features.CSI_SERVICE_ACCOUNT_TOKEN_SECRETS, "spec", "serviceAccountTokenInSecrets"),
    field_guard(features.VOLUME_LIMIT_SCALING, "spec", "preventPodSchedulingIfMissing"),
)
_ATTACHMENT_GUARDS = tuple(
    field_guard(features.MUTABLE_CSI_NODE_ALLOCATABLE_COUNT, "status", name, "errorCode")
    for name in ("attachError", "detachError")
)
_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def _warn_of_tokens(driver: Obj, ctx: Context) -> None:
    """Warn of a CSI driver that gets tokens in volume attributes."""
    spec = driver["spec"]
    unset = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
    if unset and ctx.gates[features.CSI_SERVICE_ACCOUNT_TOKEN_SECRETS]:
        ctx.warn(_TOKENS_IN_ATTRIBUTES)


def _warn_of_changed_tokens(driver: Obj, old: Obj, ctx: Context) -> None:
    """Warn of an updated CSI driver that gets other tokens than before in volume attributes."""
    if driver["spec"].get("tokenRequests") != old["spec"].get("tokenRequests"):
        _warn_of_tokens(driver, ctx)


def _drop_driver(driver: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a CSI driver that the stored one does not have."""
    drop_disabled_fields(_DRIVER_GUARDS, driver, old, ctx.gates)


def _count_driver_generation(driver: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of an updated CSI driver, and count its generation; a new one has none."""
    _drop_driver(driver, old, ctx)
    if driver["spec"] != old["spec"]:
        driver["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _class_row(first: Callable[[Obj], str]) -> Row:
    """Return the row of storage classes whose first cell, the name, is made by a function."""
    return row(
        field("provisioner"),
        field("reclaimPolicy", default="Delete"),
        field("volumeBindingMode", default="Immediate"),
        field("allowVolumeExpansion", default=False),
        first=first,
    )


def _listed_class_row(classes: Sequence[Obj]) -> Row:
    """Return the row of a list's storage classes: the newest default is marked, and by itself none is, since 1.37."""
    newest = newest_name(filter(is_default_storage_class, classes))
    return _class_row(name_or_default(lambda obj: name(obj) == newest))


_CLASS_ROW = ByRelease({V1_37: _class_row(name), V1_31: _class_row(name_or_default(is_default_storage_class))})
_LISTED_CLASS_ROW = ByRelease({V1_37: _listed_class_row, V1_31: None})


# From 1.34 on, a class of attributes is no longer marked as the default.
_DEFAULT_ATTRIBUTES_CLASS = name_or_default(annotated("volumeattributesclass.alpha.kubernetes.io/is-default-class"))
_ATTRIBUTES_CLASS_ROW = ByRelease(
    {V1_34: row(field("driverName")), V1_31: row(field("driverName"), first=_DEFAULT_ATTRIBUTES_CLASS)}
)


def _driver_row(driver: Obj, now: float) -> list[Any]:
    """Return the cells of a CSI driver."""
    spec = driver.get("spec", {})
    tokens = spec.get("tokenRequests")
    return [
        name(driver),
        nested_field(spec, "attachRequired", default=True),
        *(nested_field(spec, key, default=False) for key in ("podInfoOnMount", "storageCapacity")),
        UNSET if tokens is None else ",".join(t.get("audience", "") for t in tokens),
        nested_field(spec, "requiresRepublish", default=False),
        ",".join(spec.get("volumeLifecycleModes") or []) or NONE,
        age(driver, now),
    ]


_CLASS = as_on_create(CORE.created, validation.storage_class)
_ATTRIBUTES_CLASS = as_on_create(CORE.created, validation.attributes_class)
_NODE = as_on_create(CORE.created, validation.csi_node)
_CAPACITY = as_on_create(CORE.created, validation.capacity)
_ATTACHMENT = as_on_create(CORE.created, validation.stored_attachment)
_ATTACHMENT_UPDATE = all_of(until(V1_35, _ATTACHMENT), _ATTACHMENT, validation.attachment_changes)


def _drop_health(node: Obj, old: Obj, ctx: Context) -> None:
    drop_disabled_fields(_HEALTH_GUARDS, node, old, ctx.gates)


_HEALTH_GUARDS = (field_guard(features.CSI_VOLUME_HEALTH, "status", "storageHealth"),)


def _csi_nodes(version: Version) -> Behavior:
    """Return the behavior of CSINodes, which have a status since 1.37."""
    rules: dict[str, Any] = {
        "validate": validation.csi_node,
        "validate_update": all_of(until(V1_36, _NODE), _NODE, validation.csi_node_changes),
        "unconditional_update": False,
    }
    cells = row(count("spec", "drivers"))
    if version < V1_37:
        return Behavior(strategy=Strategy(**rules), table_row=cells, delete_returns_object=True)
    status = status_strategy(
        keep_metadata(*RESET_FOR_STATUS),
        _drop_health,
        validate_update=all_of(CORE.updated, storage_health.validate),
        unconditional_update=False,
        reset_fields=METADATA_RESET,
    )
    strategy = resource_strategy(GROUP, "v1", "CSINode", **rules)
    return Behavior(strategy=strategy, status=status, table_row=cells, delete_returns_object=True)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        (GROUP, "StorageClass"): Behavior(
            defaults=_default_class,
            strategy=Strategy(
                validate=validation.storage_class,
                validate_update=all_of(_CLASS, CORE.updated, validation.storage_class_changes),
            ),
            table_row=_CLASS_ROW[version],
            list_row=_LISTED_CLASS_ROW[version],
            delete_returns_object=True,
        ),
        (GROUP, "VolumeAttributesClass"): Behavior(
            strategy=Strategy(
                validate=validation.attributes_class,
                validate_update=all_of(
                    until(V1_35, _ATTRIBUTES_CLASS),
                    CORE.updated,
                    validation.attributes_class_changes,
                    _ATTRIBUTES_CLASS,
                ),
            ),
            table_row=_ATTRIBUTES_CLASS_ROW[version],
            delete_returns_object=True,
        ),
        (GROUP, "CSIDriver"): Behavior(
            defaults=_default_driver,
            strategy=Strategy(
                prepare_for_create=lambda driver, ctx: _drop_driver(driver, None, ctx),
                prepare_for_update=_count_driver_generation,
                validate=validation.driver,
                validate_update=all_of(CORE.updated, as_on_create(validation.driver), validation.driver_changes),
                warn_create=_warn_of_tokens,
                warn_update=_warn_of_changed_tokens,
                unconditional_update=False,
            ),
            table_row=_driver_row,
            delete_returns_object=True,
        ),
        (GROUP, "CSINode"): _csi_nodes(version),
        (GROUP, "CSIStorageCapacity"): Behavior(
            strategy=Strategy(
                validate=validation.capacity,
                validate_update=all_of(_CAPACITY, CORE.updated, validation.capacity_changes),
                unconditional_update=False,
            ),
            table_row=created_at,
        ),
        (GROUP, "VolumeAttachment"): Behavior(
            strategy=resource_strategy(
                GROUP,
                "v1",
                "VolumeAttachment",
                validate=validation.attachment,
                validate_update=_ATTACHMENT_UPDATE,
                unconditional_update=False,
            ),
            status=status_strategy(
                keep_metadata(*RESET_FOR_STATUS),
                lambda new, old, ctx: drop_disabled_fields(_ATTACHMENT_GUARDS, new, old, ctx.gates),
                validate_update=_ATTACHMENT_UPDATE,
                unconditional_update=False,
                reset_fields=METADATA_RESET,
            ),
            table_row=row(
                field("spec", "attacher"),
                field("spec", "source", "persistentVolumeName"),
                field("spec", "nodeName"),
                field("status", "attached", default=False),
            ),
            delete_returns_object=True,
        ),
    }
