"""StorageVersions, and migrations of stored objects to a new version: strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import CORE, Metadata
from understudy.kinds.common.printers import UNSET, field, name, row, shortened
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.kinds.storage_versions import validation
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj, nested_field

INTERNAL, MIGRATION = "internal.apiserver.k8s.io", "storagemigration.k8s.io"

_SHARED: dict[str, Any] = {"unconditional_update": False}
_STATUS: dict[str, Any] = {**_SHARED, "reset_fields": METADATA_RESET}


def _servers(storage_version: Obj) -> str:
    """Return the storageVersions cell: `SERVER=VERSION,…` (upstream: `formatStorageVersions`)."""
    servers = nested_field(storage_version, "status", "storageVersions", default=[])
    return shortened([f"{s.get('apiServerID', '')}={s.get('encodingVersion', '')}" for s in servers], 3) or UNSET


def _resource(migration: Obj) -> Obj:
    resource: Obj = nested_field(migration, "spec", "resource", default={})
    return resource


def _migration_row(migration: Obj, now: float) -> list[Any]:
    """Return the cells of a migration: its name, what it migrates, and the last of its conditions that is true."""
    resource = _resource(migration)
    parts = (resource.get("resource", ""), resource.get("group", ""))
    conditions = nested_field(migration, "status", "conditions", default=[])
    true = [c.get("type") for c in conditions if c.get("status") == "True"]
    states = [kind for kind in true if kind in ("Running", "Failed", "Succeeded")]
    return [name(migration), ".".join(parts).removesuffix("."), states[-1] if states else "Unknown"]


def _alpha_migration_row(migration: Obj, now: float) -> list[Any]:
    """Return the cells of a migration of one version: its name, and what it migrates."""
    resource = _resource(migration)
    return [name(migration), ".".join(resource.get(part, "") for part in ("resource", "version", "group"))]


_MIGRATION_ROW = ByRelease({V1_35: _migration_row, V1_31: _alpha_migration_row})


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    kind = "StorageVersionMigration"
    return {
        (INTERNAL, "StorageVersion"): Behavior(
            strategy=resource_strategy(
                INTERNAL,
                "v1alpha1",
                "StorageVersion",
                validate_metadata=Metadata(name=validation.storage_version_name).created,
                **_SHARED,
            ),
            status=status_strategy(
                keep_metadata(*RESET_FOR_STATUS), validate_update=validation.storage_version_status, **_STATUS
            ),
            table_row=row(field("status", "commonEncodingVersion", default=UNSET), _servers),
        ),
        (MIGRATION, kind): Behavior(
            strategy=resource_strategy(
                MIGRATION,
                _MIGRATION_VERSION[version],
                kind,
                validate=validation.migration,
                validate_update=all_of(
                    as_on_create(CORE.created, validation.migration),
                    CORE.updated,
                    validation.same_migration,
                ),
                **_SHARED,
            ),
            status=status_strategy(
                keep_metadata(*RESET_FOR_STATUS), validate_update=validation.migration_status, **_STATUS
            ),
            table_row=_MIGRATION_ROW[version],
        ),
    }


_MIGRATION_VERSION = ByRelease({V1_35: "v1beta1", V1_31: "v1alpha1"})
