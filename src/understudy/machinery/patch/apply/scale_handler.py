"""Managed fields of a Scale and of the workload behind it (upstream: `managedfields.ScaleHandler`).

A Scale shows one field of its workload, and so do its managed fields: the owners of the workload's replicas own
`spec.replicas` of the Scale. After a write of the Scale they go the other way. As in the real server, new entries have
no time.

    scale["metadata"]["managedFields"] = to_scale(workload["metadata"].get("managedFields"), {"apps/v1"})
    …
    workload["metadata"]["managedFields"] = to_workload(before, scale's, "apps/v1", {"apps/v1"})
"""

from __future__ import annotations

from collections.abc import Collection

from understudy.machinery.patch.apply import managers
from understudy.machinery.patch.apply.managers import ManagedFields, VersionedSet
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, has, new_set
from understudy.machinery.types import Obj

SCALE_VERSION = "autoscaling/v1"
_PATH = ("f:spec", "f:replicas")
_REPLICAS: Set = new_set(("spec", "replicas"))


def to_scale(entries: list[Obj] | None, versions: Collection[str]) -> list[Obj]:
    """Return the managedFields of a Scale. `versions` are the API versions of the workload; entries in others have no
    replicas."""
    return managers.encode(
        {
            manager: VersionedSet(_REPLICAS, SCALE_VERSION, owned.time)
            for manager, owned in managers.decode(entries, trusted=True).items()
            if owned.api_version in versions and has(owned.fields, _PATH)
        }
    )


def to_workload(
    entries: list[Obj] | None,
    scale: list[Obj] | None,
    api_version: str,
    versions: Collection[str],
    *,
    path: tuple[str, ...] = ("spec", "replicas"),
) -> list[Obj]:
    """Return the managedFields of a workload after its Scale was written.

    `entries` are those of the workload before, `scale` those of the Scale. `api_version` is the one of the request.
    Entries in a version that is not in `versions`, those of the workload, are dropped. `path` leads to the workload's
    replicas.
    """
    replicas, path_elements = new_set(path), tuple(f"f:{name}" for name in path)
    scale_owners = managers.decode(scale, trusted=True)
    after: ManagedFields = {}
    for manager, owned in managers.decode(entries, trusted=True).items():
        if owned.api_version not in versions:
            continue
        if not has(owned.fields, path_elements) or manager in scale_owners:
            scale_owners.pop(manager, None)
            after[manager] = owned
        elif rest := difference(owned.fields, replicas):
            after[manager] = owned.with_fields(rest)
    for manager, owned in scale_owners.items():
        if has(owned.fields, _PATH):
            after[manager] = VersionedSet(replicas, api_version, "")
    return managers.encode(after)
