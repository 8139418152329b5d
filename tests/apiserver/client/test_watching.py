"""Watches of a server and its users, as iterators."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.waiting import PATIENCE, wait_until
from understudy import Server, StatusError, Watch
from understudy.apiserver.client.objects import ObjectAccess
from understudy.apiserver.client.watching import MOST, Frames
from understudy.apiserver.storage.interface import Store
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.types import Obj


def config_map(name: str, **labels: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def open_watches(server: Server) -> int:
    store: Store = server.state.registry.store
    return store.watching("/registry/configmaps/default/")


def test_watch_sees_every_change(access: ObjectAccess) -> None:
    """A watch begins with what is there, and has each change as it comes."""
    access.create(config_map("a"))
    with access.watch("cm", "default") as events:
        assert isinstance(events, Watch)
        access.create(config_map("b"))
        access.patch("cm", "a", {"data": {"k": "1"}})
        access.delete("cm", "b")
        seen = [(type_, obj["metadata"]["name"]) for type_, obj in (next(events) for _ in range(4))]
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


def test_watch_goes_on_from_a_list(access: ObjectAccess) -> None:
    """A watch from the version of a list has what happened since, and an event has a type and an object."""
    access.create(config_map("a"))
    listed = access.list("cm", "default")
    access.create(config_map("b"))
    with access.watch("cm", "default", resource_version=listed.resource_version) as events:
        event = next(events)
    assert (event.type, event.object["metadata"]["name"], event.object["kind"]) == ("ADDED", "b", "ConfigMap")


def test_watch_is_of_what_selectors_match(access: ObjectAccess) -> None:
    """An object that a selector no longer matches is deleted for the watch."""
    with (
        access.watch("cm", labels={"x": "1"}) as labelled,
        access.watch("cm", labels="x", fields="metadata.name=b") as named,
    ):
        access.create(config_map("a", x="1"))
        access.create(config_map("b", x="2"))
        access.patch("cm", "a", {"metadata": {"labels": {"x": "2"}}})
        assert [next(labelled).type for _ in range(2)] == ["ADDED", "DELETED"]
        assert next(named).object["metadata"]["name"] == "b"


def test_watch_ends_when_its_time_is_up(access: ObjectAccess) -> None:
    """A loop over a watch ends after its timeout, and so does one that has none left."""
    access.create(config_map("a"))
    assert len(list(access.watch("cm", "default", timeout=0.05))) <= 1
    assert list(access.watch("cm", "default", timeout=0)) == []


@pytest.mark.parametrize("end", ["close", "block", "forgotten", "timeout"])
def test_ended_watch_is_closed_at_the_server(apiserver: Server, end: str) -> None:
    """The server keeps no watch that was closed, left, forgotten, or whose time is up."""
    events = apiserver.watch("cm", "default", timeout=0 if end == "timeout" else PATIENCE)
    assert open_watches(apiserver) == 1
    if end == "close":
        events.close()
        events.close()
        assert list(events) == []
    elif end == "block":
        with events:
            pass
    elif end == "timeout":
        assert next(events, None) is None
    if end == "forgotten":
        del events
    wait_until(lambda: open_watches(apiserver) == 0)


@pytest.mark.parametrize("end", ["reset", "stop"])
def test_watch_ends_with_the_server(end: str) -> None:
    """A thread that waits for the next event goes on when the server is reset or stopped."""
    with Server() as server:
        events = server.watch("cm", "default", timeout=None)
        ended = threading.Event()

        def read() -> None:
            assert list(events) == []
            ended.set()

        thread = threading.Thread(target=read)
        thread.start()
        if end == "reset":
            server.reset()
            assert ended.wait(PATIENCE)
    thread.join(PATIENCE)
    assert ended.is_set()
    events.close()


def test_refused_watch_raises(access: ObjectAccess) -> None:
    """A watch that cannot begin raises at once; one that is too old, with its first event."""
    with pytest.raises(StatusError, match='resource type "cms"'):
        access.watch("cms")
    with pytest.raises(StatusError) as error:
        access.watch("cm", labels="a b")
    assert error.value.code == 400


def test_watch_that_is_too_old_raises(apiserver: Server) -> None:
    """A watch from a compacted version raises 410, and is at its end."""
    old = apiserver.create(config_map("a"))["metadata"]["resourceVersion"]
    apiserver.create(config_map("b"))
    apiserver.compact()
    events = apiserver.watch("cm", resource_version=old)
    with pytest.raises(StatusError, match="too old resource version") as error:
        next(events)
    assert (error.value.code, error.value.reason) == (410, "Expired")
    assert list(events) == []


def test_many_events_arrive_in_order(apiserver: Server) -> None:
    """Events that nobody has read yet wait, while others use the server."""
    count = 300
    with apiserver.watch("cm", "default") as events:
        for number in range(count):
            apiserver.create(config_map(f"a-{number}"))
        assert [next(events).object["metadata"]["name"] for _ in range(count)] == [f"a-{n}" for n in range(count)]


async def test_coroutine_reads_in_a_thread(apiserver: Server) -> None:
    """A coroutine waits for events in a thread, and goes on with other things meanwhile."""

    async def create() -> None:
        await asyncio.sleep(0)
        apiserver.create(config_map("a"))

    with apiserver.watch("cm", "default") as events:
        event, _ = await asyncio.gather(asyncio.to_thread(next, events), create())
    assert event.object["metadata"]["name"] == "a"


def test_watch_on_a_kind_that_has_none(apiserver: Server) -> None:
    """Watching a kind that has no watch raises the server's StatusError of 405."""
    with pytest.raises(StatusError) as error:
        apiserver.watch("componentstatuses")
    assert error.value.code == 405


@pytest.mark.parametrize("reads_on", [True, False])
def test_watch_that_is_not_read_holds_a_bounded_number_of_events(apiserver: Server, reads_on: bool) -> None:
    """The server puts no more events than a watch may hold, and the others when these have been read."""
    frames = Frames()
    apiserver._ask(lambda client, _: client.watch("/api/v1/namespaces/default/configmaps", {}, frames))
    for number in range(MOST + 50):
        apiserver.create(config_map(f"c{number}"))
    waiting = wait_until(frames._queue.qsize, lambda size: size >= MOST)
    assert waiting == MOST
    if reads_on:
        names = [loads(frames.get(PATIENCE) or b"{}")["object"]["metadata"]["name"] for _ in range(MOST + 50)]
        assert names == [f"c{number}" for number in range(MOST + 50)]
