"""Events as client-go's recorders write them: counted, aggregated, limited, and sent in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.events.series import SeriesRecorder
from understudy.controlplane.client.resources import NODES, PODS
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import micro_timestamp

POD: Obj = {"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"}}


class Clock:
    """A clock that tests set."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[APIClient]:
    async with APIClient(Connection(url=server.url), "example") as client:
        yield client


def without_metadata(event: Obj) -> Obj:
    return {field: value for field, value in event.items() if field != "metadata"}


async def test_event_of_the_core_group(server: Server, client: APIClient) -> None:
    """An event names its object, source and time; the same one again is counted by a patch."""
    clock = Clock()
    async with EventRecorder(client, "resource_claim", clock) as events:
        events.event(PODS, POD, "Warning", "Failed", "no")
        clock.now += 60
        events.event(PODS, POD, "Warning", "Failed", "no")
        await events.flush()
    (event,) = server.list("Event")
    assert event["metadata"]["name"].startswith("p.1797")
    assert without_metadata(event) == {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": {"kind": "Pod", "apiVersion": "v1", **POD["metadata"]},
        "reason": "Failed",
        "message": "no",
        "source": {"component": "resource_claim"},
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:14:20Z",
        "count": 2,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": "resource_claim",
        "reportingInstance": "",
    }


async def test_deleted_event_is_written_anew(server: Server, client: APIClient) -> None:
    """A counted event that is gone meanwhile is created with its count."""
    async with EventRecorder(client, "c", Clock()) as events:
        events.event(PODS, POD, "Normal", "Done", "yes")
        await events.flush()
        server.delete("Event", server.list("Event")[0]["metadata"]["name"])
        events.event(PODS, POD, "Normal", "Done", "yes")
        await events.flush()
    assert [event["count"] for event in server.list("Event")] == [2]


async def test_similar_events_become_one(server: Server, client: APIClient) -> None:
    """The tenth message about the same stands for all that follow, with the newest text."""
    async with EventRecorder(client, "c", Clock()) as events:
        for number in range(12):
            events.event(PODS, POD, "Warning", "Failed", f"try {number}")
        await events.flush()
    written = {event["message"]: event["count"] for event in server.list("Event")}
    assert written == {
        **{f"try {number}": 1 for number in range(9)},
        "(combined from similar events): try 11": 3,
    }


async def test_events_of_an_object_are_limited(server: Server, client: APIClient) -> None:
    """An object has 25 events at once, another one after five minutes; other objects have their own."""
    clock = Clock()
    async with EventRecorder(client, "c", clock) as events:
        for _ in range(30):
            events.event(NODES, {"metadata": {"name": "n"}}, "Warning", "Failed", "no")
        await events.flush()
        assert [event["count"] for event in server.list("Event")] == [25]
        events.event(NODES, {"metadata": {"name": "m"}}, "Warning", "Failed", "no")
        clock.now += 301
        events.event(NODES, {"metadata": {"name": "n"}}, "Warning", "Failed", "no")
        await events.flush()
    assert sorted(event["count"] for event in server.list("Event")) == [1, 31]


async def test_refused_events_are_dropped(server: Server, client: APIClient) -> None:
    """An event that the server refuses is not tried again, and later events do not wait for it."""
    async with EventRecorder(client, "c", Clock()) as events:
        events.event(PODS, {"metadata": {"name": "p", "namespace": "none"}}, "Normal", "Done", "yes")
        events.event(PODS, POD, "Normal", "Done", "yes")
        await events.flush()
    assert [event["reason"] for event in server.list("Event")] == ["Done"]


async def test_series(server: Server, client: APIClient) -> None:
    """The scheduler's events become a series with the second; later counts are written when the series has ended."""
    clock = Clock()
    async with SeriesRecorder(client, "default-scheduler", clock) as events:
        for _ in range(2):
            events.event(PODS, POD, "Warning", "FailedScheduling", "Scheduling", "0/1 nodes")
        await events.flush()
        (event,) = server.list("events.events.k8s.io")
        assert event["series"]["count"] == 2
        assert event["reportingController"] == "default-scheduler"
        assert event["reportingInstance"].startswith("default-scheduler-")
        assert (event["action"], event["note"]) == ("Scheduling", "0/1 nodes")
        assert event["regarding"]["uid"] == "u"
        last = clock.now = clock.now + 1
        events.event(PODS, POD, "Warning", "FailedScheduling", "Scheduling", "0/2 nodes")
        clock.now += 361
        events.finish_series()
        await events.flush()
    (event,) = server.list("events.events.k8s.io")
    assert event["series"] == {"count": 3, "lastObservedTime": micro_timestamp(last + 0.001)}
