"""Owners of replicas, through the scale subresource; what the real server leaves is stated as it is."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.apply.scale_handler import to_scale, to_workload

VERSIONS = {"apps/v1"}
REPLICAS = {"f:spec": {"f:replicas": {}}}


def entry(manager: str, operation: str = "Update", version: str = "apps/v1", **more: Any) -> dict[str, Any]:
    fields = more.pop("fields", REPLICAS)
    out = {"manager": manager, "operation": operation, "apiVersion": version}
    return {**out, **more, "fieldsType": "FieldsV1", "fieldsV1": fields}


BOTH = {"f:spec": {"f:paused": {}, "f:replicas": {}}}
PAUSED = {"f:spec": {"f:paused": {}}}


def test_a_scale_shows_who_owns_the_replicas() -> None:
    workload = [
        entry("alice", "Apply", time="2024-01-01T00:00:00Z", fields=BOTH),
        entry("bob", fields=PAUSED),
        entry("carol", version="apps/v0"),
    ]
    assert to_scale(workload, VERSIONS) == [entry("alice", "Apply", "autoscaling/v1", time="2024-01-01T00:00:00Z")]
    assert to_scale(None, VERSIONS) == []


def test_who_scales_takes_the_replicas() -> None:
    before = [entry("alice", time="2024-01-01T00:00:00Z", fields=BOTH)]
    scale = [{**entry("bob", version="autoscaling/v1", time="2024-01-02T00:00:00Z"), "subresource": "scale"}]
    assert to_workload(before, scale, "apps/v1", VERSIONS) == [
        {**entry("bob"), "subresource": "scale"},
        entry("alice", time="2024-01-01T00:00:00Z", fields=PAUSED),
    ]


def test_who_applies_the_same_shares_them() -> None:
    before = [entry("alice", "Apply", time="2024-01-01T00:00:00Z")]
    scale = [
        entry("alice", "Apply", "autoscaling/v1", time="2024-01-01T00:00:00Z"),
        {**entry("bob", "Apply", "autoscaling/v1"), "subresource": "scale"},
    ]
    assert to_workload(before, scale, "apps/v1", VERSIONS) == [
        {**entry("bob", "Apply"), "subresource": "scale"},
        *before,
    ]


def test_entries_without_replicas_stay_and_those_of_unknown_versions_go() -> None:
    before = [entry("alice", fields=PAUSED), entry("bob", version="apps/v0")]
    assert to_workload(before, [], "apps/v1", VERSIONS) == before[:1]
    assert to_workload(before, [entry("carol", fields=PAUSED)], "apps/v1", VERSIONS) == before[:1]
