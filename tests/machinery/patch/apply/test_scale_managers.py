"""Owners of replicas through the scale subresource, oddities of the real server included."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.apply.scale_handler import to_scale, to_workload
from understudy.machinery.types import Obj

PATHS = {"apps/v1": ("spec", "replicas")}
REPLICAS: Obj = {"f:spec": {"f:replicas": {}}}


def entry(manager: str, operation: str = "Update", version: str = "apps/v1", **more: Any) -> dict[str, Any]:
    fields = more.pop("fields", REPLICAS)
    out = {"manager": manager, "operation": operation, "apiVersion": version}
    return {**out, **more, "fieldsType": "FieldsV1", "fieldsV1": fields}


BOTH: Obj = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
PAUSED: Obj = {"f:spec": {"f:paused": {}}}


def test_scale_has_the_owners_of_replicas() -> None:
    """The managedFields of a Scale are the entries of the workload that own its replicas."""
    workload = [
        entry("alice", "Apply", time="2024-01-01T00:00:00Z", fields=BOTH),
        entry("bob", fields=PAUSED),
        entry("carol", version="apps/v0"),
    ]
    assert to_scale(workload, PATHS) == [entry("alice", "Apply", "autoscaling/v1", time="2024-01-01T00:00:00Z")]
    assert to_scale(None, PATHS) == []


def test_scaling_takes_the_replicas() -> None:
    """The manager of a scale owns the replicas of the workload."""
    before = [entry("alice", time="2024-01-01T00:00:00Z", fields=BOTH)]
    scale = [{**entry("bob", version="autoscaling/v1", time="2024-01-02T00:00:00Z"), "subresource": "scale"}]
    assert to_workload(before, scale, "apps/v1", PATHS) == [
        {**entry("bob"), "subresource": "scale"},
        entry("alice", time="2024-01-01T00:00:00Z", fields=PAUSED),
    ]


def test_applying_the_same_replicas_shares_them() -> None:
    """A manager that applies the same number shares the replicas."""
    before = [entry("alice", "Apply", time="2024-01-01T00:00:00Z")]
    scale = [
        entry("alice", "Apply", "autoscaling/v1", time="2024-01-01T00:00:00Z"),
        {**entry("bob", "Apply", "autoscaling/v1"), "subresource": "scale"},
    ]
    assert to_workload(before, scale, "apps/v1", PATHS) == [
        {**entry("bob", "Apply"), "subresource": "scale"},
        *before,
    ]


def test_other_entries_of_a_scaled_workload() -> None:
    """Entries without replicas stay; entries of unknown versions go."""
    before = [entry("alice", fields=PAUSED), entry("bob", version="apps/v0")]
    assert to_workload(before, [], "apps/v1", PATHS) == before[:1]
    assert to_workload(before, [entry("carol", fields=PAUSED)], "apps/v1", PATHS) == before[:1]
    assert to_workload([entry("alice")], [], "apps/v1", {"apps/v1": None}) == [entry("alice")]


def test_replicas_replace_the_other_fields_of_their_new_owner() -> None:
    before = [entry("alice", "Apply", fields=PAUSED)]
    assert to_workload(before, [entry("alice", "Apply", "autoscaling/v1")], "apps/v1", PATHS) == [
        entry("alice", "Apply")
    ]
