"""The last requests of a server, as a failed test shows them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.controlplane.test_components import SCHEDULER, install
from tests.http import send
from tests.waiting import PATIENCE
from understudy import Server, StatusError
from understudy.apiserver.server.filters.request_log import KEPT
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES
from understudy.controlplane.components import ComponentContext

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def last(server: Server, count: int = 10) -> list[str]:
    """Return the lines without the spaces between the columns."""
    return [" ".join(line.split()) for line in server.request_log.lines(count)]


@pytest.mark.apiserver(authorization_mode="RBAC", tls=False)
def test_line_has_verb_path_user_status_and_message(apiserver: Server) -> None:
    """A line has verb, path, user, status and the message of an error; requests of the server itself have none."""
    with pytest.raises(StatusError):
        apiserver.user("ann").get("configmaps", "a")
    send(apiserver, "GET", "/api/v1/nodes?labelSelector=a")
    send(apiserver, "GET", "/api/v1/nodes", headers={"Authorization": "Bearer wrong"})
    refused = 'cannot get resource "configmaps" in API group "" in the namespace "default"'
    anonymous = 'User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope'
    path = "/api/v1/namespaces/default/configmaps/a"
    assert last(apiserver) == [
        f'get {path} ann 403 configmaps "a" is forbidden: User "ann" {refused}',
        f"list /api/v1/nodes?labelSelector=a system:anonymous 403 nodes is forbidden: {anonymous}",
        "list /api/v1/nodes (unknown) 401 Unauthorized",
    ]


def test_methods_of_the_fixture_are_requests(apiserver: Server) -> None:
    """Requests by the server's methods are logged like others; only the last requests are kept."""
    apiserver.apply(CONFIG_MAP)
    assert [line.split()[0] for line in last(apiserver)] == ["patch"]
    for _ in range(KEPT + 5):
        send(apiserver, "GET", "/version")
    assert len(last(apiserver, 2 * KEPT)) == KEPT
    assert last(apiserver, 1) == ["get /version system:admin 200"]


def test_components_are_shown_if_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers of the server ask much: only what they are refused is kept."""
    done = threading.Event()

    async def component(context: ComponentContext) -> None:
        async with APIClient(context.connection(SCHEDULER), "scheduler") as client:
            await client.list(NODES)
            try:
                await client.get(NODES, "absent")
            except StatusError:
                done.set()
            await asyncio.Event().wait()

    install(monkeypatch, component)
    server = Server(controllers=["example"])
    server.request_log.on = True
    with server:
        assert done.wait(PATIENCE)
        shown = [line for line in last(server, KEPT) if "nodes" in line]
    assert len(shown) == 1
    assert shown[0].endswith('404 nodes "absent" not found')


def test_nothing_is_kept_by_default() -> None:
    """A server keeps no requests unless it is the fixture's."""
    with Server() as server:
        send(server, "GET", "/version")
        assert last(server) == []
