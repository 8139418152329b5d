"""The HTTP client: each verb, errors, and connections that fail."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest

from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import JSON_PATCH, STRATEGIC_PATCH, APIClient
from understudy.controlplane.client.kubeconfig import read_kubeconfig
from understudy.controlplane.client.resources import NAMESPACES, NODES, PODS, Resource
from understudy.machinery.errors import StatusError

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@pytest.fixture
async def client() -> AsyncIterator[APIClient]:
    async with Server() as server, APIClient(Connection(url=server.url), "example/v1") as client:
        yield client


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_verbs(client: APIClient) -> None:
    """Objects are created, read, listed, replaced, changed and deleted; managed fields name the user agent."""
    created = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert created["metadata"]["managedFields"][0]["manager"] == "example"
    assert await client.get(CONFIG_MAPS, "a", "default") == created
    updated = await client.update(CONFIG_MAPS, {**created, "data": {"x": "2"}})
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"y": "3"}}, "default")
    assert [updated["data"], patched["data"]] == [{"x": "2"}, {"x": "2", "y": "3"}]
    operations = [{"op": "remove", "path": "/data/x"}]
    assert (await client.patch(CONFIG_MAPS, "a", operations, "default", content_type=JSON_PATCH))["data"] == {"y": "3"}
    changes = {"metadata": {"labels": {"l": "v"}}}
    labelled = await client.patch(CONFIG_MAPS, "a", changes, "default", content_type=STRATEGIC_PATCH)
    assert labelled["metadata"]["labels"] == {"l": "v"}
    assert (await client.apply(CONFIG_MAPS, config_map("b", z="4"), "applier"))["data"] == {"z": "4"}
    listed = await client.list(CONFIG_MAPS, "default", labels="l=v")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
    await client.delete(CONFIG_MAPS, "a", "default", uid=created["metadata"]["uid"])
    await client.delete_collection(CONFIG_MAPS, "default", fields="metadata.name=b")
    assert (await client.list(CONFIG_MAPS, "default"))["items"] == []


async def test_subresources_and_cluster_objects(client: APIClient) -> None:
    """Objects without a namespace and subresources have their own paths."""
    node = await client.create(NODES, {"metadata": {"name": "n1"}})
    await client.update_status(NODES, {**node, "status": {"capacity": {"cpu": "1"}}})
    assert (await client.get(NODES, "n1"))["status"]["capacity"] == {"cpu": "1"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await client.create(PODS, pod, "default")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    }
    await client.create(PODS, binding, "default", "p", "binding")
    assert (await client.get(PODS, "p", "default"))["spec"]["nodeName"] == "n1"


async def test_refusals_are_status_errors(client: APIClient) -> None:
    """The server's code, reason, message and details are those of the error, for watches as well."""
    with pytest.raises(StatusError, match='configmaps "none" not found') as refused:
        await client.get(CONFIG_MAPS, "none", "default")
    assert (refused.value.code, refused.value.reason) == (404, "NotFound")
    assert refused.value.details == {"name": "none", "kind": "configmaps"}
    with pytest.raises(StatusError) as refused:
        await anext(client.watch(Resource("example.com", "v1", "things", "Thing")))
    assert refused.value.code == 404


async def test_watch_yields_long_lines(client: APIClient) -> None:
    """An event longer than any buffer of the connection arrives whole."""
    large = config_map("large", x="x" * 700_000)
    version = (await client.list(CONFIG_MAPS, "default"))["metadata"]["resourceVersion"]
    await client.create(CONFIG_MAPS, large)
    events = client.watch(CONFIG_MAPS, "default", query={"resourceVersion": version})
    event = await anext(events)
    await events.aclose()
    assert (event["type"], event["object"]["data"]) == ("ADDED", large["data"])


async def test_no_server_is_a_connection_error() -> None:
    """An address where nobody listens raises ConnectionError, which names it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with APIClient(Connection(url=url), "example") as client:
            with pytest.raises(ConnectionError, match=f"^{url}: "):
                await client.get(NAMESPACES, "default")


async def test_certificates() -> None:
    """A server is trusted by the authority of its kubeconfig, or if nothing is checked."""
    async with Server(tls=True) as server:
        known = read_kubeconfig(server.kubeconfig)
        for connection in (known, Connection(url=server.url, insecure=True)):
            async with APIClient(connection, "example") as client:
                assert (await client.get(NAMESPACES, "default"))["kind"] == "Namespace"
        async with APIClient(Connection(url=server.url), "example") as client:
            with pytest.raises(ConnectionError, match="certificate verify failed"):
                await client.get(NAMESPACES, "default")
