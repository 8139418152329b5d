"""Who holds which device: a row for each device that a claim has."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.controlplane.dev.holdings import Holding, holdings, published, table
from understudy.machinery.types import Obj

SPEC = {"driver": "d", "nodeName": "n1", "pool": {"name": "n1"}, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
SLICES: list[Obj] = [{"spec": SPEC}, {"spec": {"driver": "net", "pool": {"name": "p"}, "devices": [{"name": "x"}]}}]
TIME = "2026-01-01T00:00:00Z"
STARTED: Obj = {"conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]}


def claim(*results: tuple[str, str, str], **status: Any) -> Obj:
    listed = [{"driver": driver, "pool": pool, "device": device} for driver, pool, device in results]
    allocation = {"devices": {"results": listed}, "allocationTimestamp": TIME}
    return {"metadata": {"name": "c", "namespace": "a"}, "status": {"allocation": allocation, **status}}


def pod(uid: str, node: str = "n1", **status: Any) -> Obj:
    return {"metadata": {"name": uid, "namespace": "a", "uid": uid}, "spec": {"nodeName": node}, "status": status}


def used_by(*uids: str) -> list[Obj]:
    return [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]


GPU, NET = ("d", "n1", "gpu-0"), ("net", "p", "x")


@pytest.mark.parametrize(
    ("claims", "pods", "expected"),
    [
        ([{"metadata": {"name": "c", "namespace": "a"}}], [], []),
        ([claim(GPU)], [], [("n1", "d/n1/gpu-0", "a/c", "-", TIME, "no")]),
        ([claim(GPU, reservedFor=used_by("p"))], [pod("p")], [("n1", "d/n1/gpu-0", "a/c", "a/p", TIME, "no")]),
        (
            [claim(GPU, NET, reservedFor=used_by("p", "q"))],
            [pod("p"), pod("q", **STARTED)],
            [
                ("n1", "d/n1/gpu-0", "a/c", "a/p, a/q", TIME, "yes"),
                ("n1", "net/p/x", "a/c", "a/p, a/q", TIME, "yes"),
            ],
        ),
        ([claim(NET)], [], [("-", "net/p/x", "a/c", "-", TIME, "no")]),
    ],
)
def test_rows(claims: list[Obj], pods: list[Obj], expected: list[tuple[str, ...]]) -> None:
    """A device has the node of its slice, or that of the pods; it is prepared when one of them has started."""
    assert holdings(SLICES, claims, pods) == [Holding(*row) for row in expected]


def test_time_of_older_releases() -> None:
    """An allocation without a timestamp has the time of the manager who wrote it."""
    obj = claim(GPU)
    del obj["status"]["allocation"]["allocationTimestamp"]
    assert holdings(SLICES, [obj], [])[0].since == "-"
    obj["metadata"]["managedFields"] = [
        {"time": "no", "fieldsV1": {"f:spec": {}}},
        {"time": TIME, "fieldsV1": {"f:status": {"f:allocation": {}}}},
    ]
    assert holdings(SLICES, [obj], [])[0].since == TIME


def test_table() -> None:
    """The columns are as wide as they have to be, and the last line counts the devices."""
    rows = holdings(SLICES, [claim(GPU)], [])
    assert list(table(rows, published(SLICES))) == [
        "NODE  DEVICE      CLAIM  POD  SINCE                 PREPARED",
        "n1    d/n1/gpu-0  a/c    -    2026-01-01T00:00:00Z  no",
        "1 of 3 devices is held",
    ]
    assert list(table([], 2)) == ["0 of 2 devices are held"]
