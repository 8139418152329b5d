"""Components: controllers of other packages, which run beside a server as its clients."""

from __future__ import annotations

import asyncio
import threading
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from tests.waiting import PATIENCE, wait_until
from understudy import Server
from understudy.controlplane import components
from understudy.controlplane.components import ComponentContext
from understudy.machinery.auth.users import User
from understudy.machinery.releases.version import V1_33

SCHEDULER = User("system:kube-scheduler", ["system:authenticated"])


def install(monkeypatch: pytest.MonkeyPatch, component: components.Component) -> None:
    """Let an installed package have an entry point "example"."""
    entry = SimpleNamespace(name="example", load=lambda: component)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if group == components.ENTRY_POINTS else [])


@pytest.mark.parametrize("options", [{}, {"authorization_mode": ["RBAC"]}], ids=["plain", "rbac"])
def test_component_asks_the_server_as_a_user(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """A component runs once the server listens, reaches it as the user that it names, and ends with the server."""
    answers: list[Any] = []
    answered, ended = threading.Event(), threading.Event()

    async def component(context: ComponentContext) -> None:
        connection = context.connection(SCHEDULER)
        headers = {"Authorization": f"Bearer {connection.token}"}
        url = f"{connection.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
        async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers, ssl=False) as answer:
            answers.append((await answer.json())["status"]["userInfo"]["username"])
        answered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    install(monkeypatch, component)
    with Server(controllers=["example"], **options):
        assert answered.wait(PATIENCE)
        assert not ended.is_set()
    assert ended.is_set()
    assert answers == [SCHEDULER.name]


@pytest.mark.parametrize("act", ["leave", "reset"])
def test_server_answers_components_until_they_end(monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    """A server that is left or reset stops its own clients first: none complains of a server that is gone."""
    started, statuses = threading.Event(), []

    async def component(context: ComponentContext) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            url = context.connection(SCHEDULER).url
            async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/nodes") as answer:
                statuses.append(answer.status)

    install(monkeypatch, component)
    with Server(controllers=["example"]) as server:
        assert started.wait(PATIENCE)
        if act == "reset":
            server.reset()
            assert statuses == [200]
    assert set(statuses) == {200}


@pytest.mark.parametrize("name", ["scheduler", "resourceclaim", "device-taint-eviction"])
def test_server_left_at_once_is_silent(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A server that ends before its components have begun logs nothing about them."""
    for _ in range(3):
        with Server(controllers=[name], feature_gates={"DRADeviceTaints": True}):
            pass
    assert caplog.messages == []


def test_failed_component_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An error that ends a component is logged at once, with its name. The server goes on, and raises it at its end."""

    async def component(context: ComponentContext) -> None:
        raise LookupError("no such thing")

    install(monkeypatch, component)

    def use() -> None:
        with Server(controllers=["example"]) as server:
            wait_until(lambda: "controller example: no such thing" in caplog.text)
            assert server.list("Namespace")

    with pytest.raises(LookupError, match="no such thing"):
        use()


def test_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the built-in controllers and the components that are installed."""
    install(monkeypatch, lambda context: asyncio.sleep(0))
    with pytest.raises(
        ValueError, match=r"unknown controller 'exemple': known are namespace, .*, example; did you mean 'example'\?$"
    ):
        Server(controllers=["exemple"])


def test_component_of_a_later_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that came with a release is an error for those before, and runs in that one."""
    started = threading.Event()

    async def component(context: ComponentContext) -> None:
        started.set()

    install(monkeypatch, components.ComponentSince(V1_33, component))
    message = r"^controller 'example' came with Kubernetes 1.33: 1.32 has none$"
    with pytest.raises(ValueError, match=message), Server(emulated_version="1.32", controllers=["example"]):
        pass
    with Server(emulated_version="1.33", controllers=["example"]):
        assert started.wait(PATIENCE)
