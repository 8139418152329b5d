"""Informers follow a server through restarts of watches, and tell handlers every change once."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from tests.ports import free_port
from tests.waiting import running, until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.controllers.framework import informer as informers
from understudy.apiserver.controllers.framework.backoff import Backoff
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import NODES
from understudy.machinery.types import Obj


class Story:
    """Notes what handlers are told: `+a`, `~a`, `-a`."""

    def __init__(self, informer: Informer) -> None:
        self.lines: list[str] = []
        informer.add_handler(
            add=lambda obj: self.lines.append(f"+{obj['metadata']['name']}"),
            update=lambda _, obj: self.lines.append(f"~{obj['metadata']['name']}"),
            delete=lambda obj: self.lines.append(f"-{obj['metadata']['name']}"),
        )

    async def reads(self, *lines: str) -> None:
        """Wait until exactly these changes were told."""
        await until(lambda: len(self.lines) >= len(lines))
        assert self.lines == list(lines)


def node(name: str, **labels: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Informers try again at once."""
    monkeypatch.setattr(informers, "Backoff", lambda **_: Backoff(first=0.01, longest=0.01))


async def test_changes_are_told_once() -> None:
    """Objects that exist, come, change and go are told; the store holds them with kind and apiVersion."""
    async with Server() as server, APIClient(Connection(url=server.url), "example") as client:
        server.apply(node("a"))
        informer = Informer(client, NODES)
        informer.store.add_index("color", lambda obj: [obj["metadata"].get("labels", {}).get("color")])
        story = Story(informer)
        assert not informer.has_synced
        async with running(informer.run()):
            await informer.wait_for_sync()
            await story.reads("+a")
            server.apply(node("b", color="red"))
            server.apply(node("a", color="red"))
            server.delete("Node", "b")
            await story.reads("+a", "+b", "~a", "-b")
        held = informer.store.get("", "a")
        assert held is not None
        assert (held["apiVersion"], held["kind"]) == ("v1", "Node")
        assert informer.store.by_index("color", "red") == [held]
        assert informer.store.by_index("color", None) == []


async def test_waiting_for_a_version() -> None:
    """Waiting for a version ends when the store has it, or after a while if it never comes."""
    async with Server() as server, APIClient(Connection(url=server.url), "example") as client:
        informer = Informer(client, NODES)
        [a] = server.apply(node("a"))
        async with running(informer.run()):
            await informer.wait_for_sync()
            await informer.wait_for_version(a["metadata"]["resourceVersion"], 60)
            [b] = server.apply(node("b"))
            await informer.wait_for_version(b["metadata"]["resourceVersion"], 60)
            assert informer.store.get("", "b") == b
            await informer.wait_for_version("1000000", 0.01)


@pytest.mark.usefixtures("quick")
async def test_expired_watch_lists_anew() -> None:
    """After a watch has ended and history is forgotten, what was missed is told from a new list."""
    async with Server() as server, APIClient(Connection(url=server.url), "example") as client:
        server.apply(node("a"), node("b"))
        informer = Informer(client, NODES)
        story = Story(informer)
        async with running(informer.run()):
            await story.reads("+a", "+b")
        server.delete("Node", "a")
        server.apply(node("b", color="red"), node("c"))
        server.compact()
        async with running(informer.run()):
            await until(lambda: "+c" in story.lines)
        assert sorted(story.lines[2:]) == ["+c", "-a", "~b"]


@pytest.mark.usefixtures("quick")
async def test_ended_watch_goes_on() -> None:
    """A server that stops and comes back at the same address is followed again."""
    port = free_port()
    async with AsyncExitStack() as stack:
        async with Server(port=port) as server:
            client = await stack.enter_async_context(APIClient(Connection(url=server.url), "example"))
            informer = Informer(client, NODES)
            story = Story(informer)
            await stack.enter_async_context(running(informer.run()))
            await informer.wait_for_sync()
        async with Server(port=port) as again:
            again.apply(node("a"))
            await until(lambda: "+a" in story.lines)


async def test_selected_objects_only() -> None:
    """Field selectors hold for the list and for the watch; what does not match any more is gone."""
    async with Server() as server, APIClient(Connection(url=server.url), "example") as client:
        server.apply(node("a"), node("b", color="red"))
        informer = Informer(client, NODES, labels="color=red")
        story = Story(informer)
        async with running(informer.run()):
            await story.reads("+b")
            server.apply(node("a", color="red"), node("b", color="blue"))
            await story.reads("+b", "+a", "-b")
