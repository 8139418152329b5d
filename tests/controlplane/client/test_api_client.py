"""The HTTP client: each verb, errors, and connections that fail."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import pytest

from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig
from understudy.apiserver.endpoints.negotiation import JSON_PATCH, STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NAMESPACES, NODES, PODS, Resource, device_classes
from understudy.machinery.errors import StatusError

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CLASSES = device_classes(NEWEST)  # in protobuf
PARAMETERS = '{"b": [1.0, 1e3, 12345678901234567890123],"a":"<\\u003c"}'


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


def class_with_parameters(name: str, parameters: str) -> bytes:
    """Return the JSON of a class with parameters for a driver."""
    spec = f'{{"config": [{{"opaque": {{"driver": "d.example.com", "parameters": {parameters}}}}}]}}'
    kind = '"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"'
    return f'{{{kind}, "metadata": {{"name": "{name}"}}, "spec": {spec}}}'.encode()


async def test_raw_values_are_written_as_they_were_read(client: APIClient) -> None:
    """Whether an object comes from a get, a list, a watch or as an answer, its parameters keep their bytes."""
    body = class_with_parameters("c", PARAMETERS)
    assert send(client.connection.url, "POST", CLASSES.path(), body).status == 201
    got = await client.get(CLASSES, "c")
    assert got["spec"]["config"][0]["opaque"]["parameters"]["b"] == [1, 1000, 1.2345678901234568e22]
    listed = (await client.list(CLASSES))["items"][0]
    events = client.watch(CLASSES, query={"resourceVersion": "0"})
    watched = (await anext(events))["object"]
    await events.aclose()
    for number, obj in enumerate((got, listed, watched)):
        labelled = {**obj, "metadata": {**obj["metadata"], "labels": {"l": str(number)}, "resourceVersion": ""}}
        answered = await client.update(CLASSES, labelled)
        stored = send(
            client.connection.url, "GET", CLASSES.path(name="c"), accept="application/vnd.kubernetes.protobuf"
        )
        assert PARAMETERS.encode() in stored.body
        assert answered["metadata"]["generation"] == 1


async def test_protobuf_is_as_json(client: APIClient) -> None:
    """Every verb answers the same objects and errors in protobuf as in JSON."""
    as_json = CLASSES._replace(protobuf_release=None)
    assert await client.list(CLASSES) == await client.list(as_json)
    made = await client.create(CLASSES, {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "e.com/gpu"}})
    assert made == await client.get(as_json, "c")
    for verb in (client.list, lambda resource: client.get(resource, "c")):
        assert await verb(CLASSES) == await verb(as_json)
    changed = await client.patch(CLASSES, "c", {"metadata": {"labels": {"a": "b"}}})
    assert changed == await client.apply(CLASSES, {"metadata": {"name": "c"}}, "applier")
    refusals = []
    for resource in (CLASSES, as_json):
        with pytest.raises(StatusError) as refused:
            await client.update(resource, {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "-"}})
        refusals.append((str(refused.value), refused.value.code, refused.value.reason, refused.value.details))
    assert refusals[0] == refusals[1]
    for resource in (CLASSES, as_json):
        events = client.watch(resource, query={"resourceVersion": "1"})
        kinds = [(await anext(events))["type"] for _ in range(2)]
        await events.aclose()
        assert kinds == ["ADDED", "MODIFIED"]
    assert (await client.delete(CLASSES, "c"))["metadata"]["name"] == "c"


async def test_watch_in_protobuf_yields_long_events(client: APIClient) -> None:
    """An event longer than any buffer of the connection arrives whole in protobuf, too, and so do those after it."""
    large = {"metadata": {"name": "large", "annotations": {"a": "x" * 200_000}}, "spec": {}}
    for name in ("large", "larger"):
        await client.create(CLASSES, {**large, "metadata": {**large["metadata"], "name": name}})
    events = client.watch(CLASSES, query={"resourceVersion": "1"})
    seen = [(await anext(events))["object"]["metadata"] for _ in range(2)]
    await events.aclose()
    assert [(metadata["name"], len(metadata["annotations"]["a"])) for metadata in seen] == [
        ("large", 200_000),
        ("larger", 200_000),
    ]


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
