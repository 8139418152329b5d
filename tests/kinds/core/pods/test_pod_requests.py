"""What the containers of a pod need together."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.core.pods.containers.pod_requests import aggregate, of_pod, parsed
from understudy.machinery.types import Obj


def container(memory: str, **fields: Any) -> Obj:
    return {"name": "c", "resources": {"requests": {"memory": memory}}, **fields}


def sidecar(memory: str) -> Obj:
    return container(memory, restartPolicy="Always")


@pytest.mark.parametrize(
    ("init", "memory"),
    [
        ([], "3Gi"),
        ([container("2Gi")], "3Gi"),
        ([container("5Gi"), container("4Gi")], "5Gi"),
        ([sidecar("1Gi")], "4Gi"),
        ([sidecar("1Gi"), container("5Gi")], "6Gi"),
        ([container("5Gi"), sidecar("1Gi")], "5Gi"),
        ([sidecar("1Gi"), container("4Gi"), sidecar("2Gi")], "6Gi"),
    ],
)
def test_largest_need_counts(init: list[Obj], memory: str) -> None:
    """Containers and sidecars add up; an init container needs its own amount beside the sidecars before it."""
    spec = {"containers": [container("1Gi"), container("2Gi")], "initContainers": init}
    assert {name: str(amount) for name, amount in aggregate(spec, "requests").items()} == {"memory": memory}


def test_init_container_gives_its_sum_the_format() -> None:
    """An init container with an amount in powers of ten makes the sum with a sidecar one, as `Quantity.Add` does."""
    spec = {"containers": [container("1")], "initContainers": [sidecar("1Gi"), container("2G")]}
    assert str(aggregate(spec, "requests")["memory"]) == "3073741824"


def test_pod_wins_for_resources_that_are_supported() -> None:
    """The amount of the pod as a whole counts for supported resources, those of containers for all others."""
    requests = {"memory": "1Gi", "cpu": "1"}
    spec = {
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        "resources": {"requests": {"memory": "2Gi", "cpu": "2"}},
    }
    total = of_pod(spec, "requests", parsed, "memory".__eq__)
    assert {name: str(amount) for name, amount in total.items()} == {"memory": "2Gi", "cpu": "1"}
