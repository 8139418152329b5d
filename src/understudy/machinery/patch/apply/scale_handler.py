"""Owners seen through the scale subresource.

A Scale shows one field of the workload behind it, and so do its managed fields: who owns the workload's replicas owns
`spec.replicas` of the Scale. After a write of the Scale they go the other way. As in the real server the entries that
come out of it new have no time.

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
    """The managedFields of the Scale. `versions` are the workload's API versions; others have no replicas."""
    return managers.encode(
        {
            manager: VersionedSet(_REPLICAS, SCALE_VERSION, owned.time)
            for manager, owned in managers.decode(entries, trusted=True).items()
            if owned.api_version in versions and has(owned.fields, _PATH)
        }
    )


def to_workload(
    entries: list[Obj] | None, scale: list[Obj] | None, api_version: str, versions: Collection[str]
) -> list[Obj]:
    """The managedFields of the workload, whose `entries` they were, after its Scale was written, whose `scale` are.
    `api_version` is the one of the request. Entries in a version that is not the workload's go."""
    left = managers.decode(scale, trusted=True)
    after: ManagedFields = {}
    for manager, owned in managers.decode(entries, trusted=True).items():
        if owned.api_version not in versions:
            continue
        if not has(owned.fields, _PATH) or manager in left:
            left.pop(manager, None)
            after[manager] = owned
        elif rest := difference(owned.fields, _REPLICAS):
            after[manager] = owned.with_fields(rest)
    for manager, owned in left.items():
        if has(owned.fields, _PATH):
            after[manager] = VersionedSet(_REPLICAS, api_version, "")
    return managers.encode(after)
