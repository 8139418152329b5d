"""Managed fields of a Scale and of the workload behind it (upstream: `managedfields.ScaleHandler`).

A Scale shows one field of its workload, and so do its managed fields: the owners of the workload's replicas own
`spec.replicas` of the Scale. After a write of the Scale they go the other way. As in the real server, entries
of new owners have no time.

    paths = {"apps/v1": ("spec", "replicas")}
    scale["metadata"]["managedFields"] = to_scale(workload["metadata"].get("managedFields"), paths)
    …
    workload["metadata"]["managedFields"] = to_workload(before, scale's, "apps/v1", paths)
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.machinery.patch.apply import managers
from understudy.machinery.patch.apply.managers import ManagedFields, VersionedSet
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, has, new_set
from understudy.machinery.types import Obj

SCALE_VERSION = "autoscaling/v1"
REPLICAS = ("spec", "replicas")
_REPLICAS: Set = new_set(REPLICAS)

# {API version of a workload: path of its replicas in that version, None if it has no scale there}
ReplicasPaths = Mapping[str, tuple[str, ...] | None]


def _owns(owned: VersionedSet, path: tuple[str, ...] | None) -> bool:
    """Report whether an entry has the field at a path."""
    return path is not None and has(owned.fields, tuple(f"f:{name}" for name in path))


def to_scale(entries: list[Obj] | None, paths: ReplicasPaths) -> list[Obj]:
    """Return the managedFields of a Scale. Entries in a version that `paths` does not have own no replicas."""
    return managers.encode(
        {
            manager: VersionedSet(_REPLICAS, SCALE_VERSION, owned.time)
            for manager, owned in managers.decode(entries, trusted=True).items()
            if _owns(owned, paths.get(owned.api_version))
        }
    )


def to_workload(
    entries: list[Obj] | None, scale: list[Obj] | None, api_version: str, paths: ReplicasPaths
) -> list[Obj]:
    """Return the managedFields of a workload after its Scale was written.

    `entries` are those of the workload before, `scale` those of the Scale. `api_version` is the one of the request.
    Entries in a version that `paths` does not have are dropped.
    """
    scale_owners, before = managers.decode(scale, trusted=True), managers.decode(entries, trusted=True)
    after: ManagedFields = {}
    for manager, owned in before.items():
        if owned.api_version not in paths:
            continue
        path = paths[owned.api_version]
        if path is None or not _owns(owned, path):
            after[manager] = owned
        elif manager in scale_owners:
            del scale_owners[manager]
            after[manager] = owned
        elif rest := difference(owned.fields, new_set(path)):
            after[manager] = owned.with_fields(rest)
    for manager, owned in scale_owners.items():
        if _owns(owned, REPLICAS):
            time = before[manager].time if manager in before else ""
            after[manager] = VersionedSet(new_set(paths[api_version] or REPLICAS), api_version, time)
    return managers.encode(after)
