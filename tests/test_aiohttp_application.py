"""The API as an aiohttp application: for aiohttp's test client, mounted into others, and behind middlewares."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.http import send
from tests.waiting import PATIENCE, until, wait_until
from understudy import Fault, Server
from understudy.aiohttp import SERVER, application

NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
Client = TestClient[web.Request, web.Application]
VARYING = ("Date", "Audit-Id")


def config_map(name: str, size: int = 1) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


JSON = "application/json"
ZIPPED = gzip.compress(json.dumps(config_map("zipped")).encode())  # kube-apiserver unpacks no request


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with TestClient(TestServer(application()), auto_decompress=False) as client:
        yield client


@pytest.fixture
def server(client: Client) -> Server:
    return client.app[SERVER]


def watching(server: Server) -> int:
    """Return the number of open watches of ConfigMaps in the namespace `default`."""
    return server.state.registry.store.watching("/registry/configmaps/default/")


async def of_both(client: Client, server: Server, method: str, path: str, **how: Any) -> list[tuple[Any, ...]]:
    """Return the answers of the application and of the server's own port: status, reason, headers, body."""
    answers = []
    async with aiohttp.ClientSession(server.url, auto_decompress=False) as direct:
        for asked in (client, direct):
            async with asked.request(method, path, **how) as response:
                headers = sorted((name, value) for name, value in response.headers.items() if name not in VARYING)
                answers.append((response.status, response.reason, headers, await response.read()))
    return answers


@pytest.mark.parametrize(
    ("method", "path", "how"),
    [
        ("GET", NAMESPACES, {}),
        ("HEAD", NAMESPACES, {}),
        ("GET", f"{NAMESPACES}/none", {}),
        ("GET", f"{CONFIG_MAPS}?limit=a", {}),
        ("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=a", {}),
        ("POST", CONFIG_MAPS, {"data": b"{", "headers": {"Content-Type": "application/json"}}),
        ("POST", CONFIG_MAPS, {"data": b"a", "headers": {"Content-Type": "text/plain"}}),
        ("POST", CONFIG_MAPS, {"data": b"x" * (4 << 20), "headers": {"Content-Type": "application/json"}}),
        ("POST", CONFIG_MAPS, {"data": ZIPPED, "headers": {"Content-Encoding": "gzip", "Content-Type": JSON}}),
        ("PATCH", f"{CONFIG_MAPS}/a", {"json": {}}),
        ("DELETE", f"{CONFIG_MAPS}/none", {}),
        ("OPTIONS", NAMESPACES, {}),
        ("GET", "/openapi/v2", {"headers": {"Accept": "application/json", "Accept-Encoding": "gzip"}}),
        ("GET", "/version", {"headers": {"Host": "example.com"}}),
        ("GET", f"/version?x={'a' * 20_000}", {"headers": {"X-Long": "b" * 20_000}}),
        ("GET", "/healthz/ping", {}),
        ("GET", "/none", {}),
    ],
)
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_answers_are_the_servers(
    client: Client, server: Server, method: str, path: str, how: dict[str, Any]
) -> None:
    """Status, reason, headers and body are those of the server's own port."""
    through, direct = await of_both(client, server, method, path, **how)
    assert through == direct


@pytest.mark.parametrize(
    "target", ["/api/v1/namespaces/a%2Fb", "/api/v1/../v1/namespaces", "/api/v1/nodes/%0A", "/%zz", "//api//v1/"]
)
async def test_paths_are_left_as_they_are(client: Client, server: Server, target: str) -> None:
    """Escaped and dotted paths reach the server as the client has written them."""

    async def page(port: int) -> tuple[bytes, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return head.partition(b"\r\n")[0], body

    assert client.port
    assert await page(client.port) == await page(int(server.url.rpartition(":")[2]))


async def test_the_server_is_at_hand(client: Client, server: Server) -> None:
    """A test uses the server behind the application as it does the one of the fixture."""
    server.create(config_map("a"))
    async with client.delete(f"{CONFIG_MAPS}/a") as response:
        assert response.status == 200
    assert server.list("configmaps", namespace="default") == []
    assert server.requests.deletes("configmaps")[-1].name == "a"


async def test_a_watch_goes_on_until_the_client_leaves(client: Client, server: Server) -> None:
    """Events come as they happen; a watch whose client is gone ends in the server."""
    async with client.get(f"{CONFIG_MAPS}?watch=1") as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        for name in ("a", "b"):
            await asyncio.to_thread(server.create, config_map(name))
            assert json.loads(await response.content.readline())["object"]["metadata"]["name"] == name
        watching = server.state.registry.store.watching("/registry/configmaps/default/")
        assert watching
        response.close()
    await asyncio.to_thread(
        wait_until, lambda: not server.state.registry.store.watching("/registry/configmaps/default/")
    )


async def test_a_streaming_list(client: Client, server: Server) -> None:
    """A watch list sends what there is, and a bookmark that says so."""
    server.create(config_map("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    async with client.get(f"{CONFIG_MAPS}?{query}", headers={"Accept-Encoding": "identity"}) as response:
        types = [json.loads(line)["type"] for line in (await response.read()).splitlines()]
    assert types[:2] == ["ADDED", "BOOKMARK"]


async def test_a_large_list_is_gzipped(client: Client, server: Server) -> None:
    """A large answer is compressed for a client that accepts it, by the server's rules."""
    for number in range(3):
        server.create(config_map(f"a{number}", 60_000))
    through, direct = await of_both(client, server, "GET", CONFIG_MAPS, headers={"Accept-Encoding": "gzip"})
    assert ("Content-Encoding", "gzip") in through[2]
    assert gzip.decompress(through[3]) == gzip.decompress(direct[3])


async def test_a_body_that_comes_in_chunks(client: Client, server: Server) -> None:
    """A large body without a length, which the client holds back until it is asked for it, is stored whole."""

    async def body() -> AsyncIterator[bytes]:
        text = json.dumps(config_map("a", 900_000)).encode()
        for at in range(0, len(text), 50_000):
            yield text[at : at + 50_000]

    json_type = {"Content-Type": "application/json"}
    async with client.post(CONFIG_MAPS, data=body(), headers=json_type, expect100=True) as response:
        assert response.status == 201
    assert len(server.get("configmaps", "a", namespace="default")["data"]["text"]) == 900_000


async def test_a_websocket(client: Client, server: Server) -> None:
    """A watch over a WebSocket sends messages, answers pings and ends when the client says so."""
    async with client.ws_connect(f"{CONFIG_MAPS}?watch=1", origin=str(client.make_url(""))) as websocket:
        await websocket.ping(b"a")
        await asyncio.to_thread(server.create, config_map("a"))
        event = json.loads(await websocket.receive_str(timeout=PATIENCE))
        assert event["object"]["metadata"]["name"] == "a"
    assert websocket.close_code == 1000
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await client.ws_connect(f"{CONFIG_MAPS}?watch=1")


async def test_faults(client: Client, server: Server) -> None:
    """Faults that cut an answer off, or reset the connection, do so here."""
    with server.faults.add(Fault.reset(after_bytes=20), resource="configmaps", times=1) as cut:
        response = await client.get(CONFIG_MAPS)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    cut.assert_fired()
    reset = server.faults.add(Fault.reset(), resource="configmaps", verb="create", times=1)
    with pytest.raises(aiohttp.ClientError):
        await client.post(CONFIG_MAPS, json=config_map("a"))
    reset.assert_fired()
    assert (await client.get(CONFIG_MAPS)).status == 200


async def test_the_end_waits_for_no_request(client: Client, server: Server) -> None:
    """An application ends although a request is never answered: its connection is reset."""
    hang = server.faults.add(Fault.hang(), resource="configmaps")
    asked = asyncio.create_task(client.get(CONFIG_MAPS))
    await until(lambda: hang.fired)
    async with asyncio.timeout(PATIENCE / 2):  # aiohttp itself would wait for twice as long
        await client.server.close()
    with pytest.raises(aiohttp.ClientError):
        await asked


async def test_mounted_below_a_prefix() -> None:
    """Another application strips its prefix, runs its middlewares and starts and ends the server with itself."""

    @web.middleware
    async def named(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        response = await handler(request)
        if not response.prepared:
            response.headers["X-Proxy"] = f"{request.method} {response.status}"
        return response

    async def read_first(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        await request.read()
        return await handler(request)

    api, inner, outer = application(load=["gpu-cluster"]), web.Application(), web.Application(middlewares=[named])
    api.middlewares.append(web.middleware(read_first))
    inner.add_subapp("/k8s", api)
    outer.add_subapp("/outer", inner)
    async with TestClient(TestServer(outer)) as client:
        async with client.get("/outer/k8s/api/v1/nodes/node-1") as response:
            assert (response.status, response.headers["X-Proxy"]) == (200, "GET 200")
        async with client.post(f"/outer/k8s{CONFIG_MAPS}", json=config_map("a")) as response:
            assert response.status == 201
        server = api[SERVER]
        assert server.get("configmaps", "a", namespace="default")["data"] == {"text": "x"}
        assert send(server, "GET", NAMESPACES).status == 200
        watch = await client.get(f"/outer/k8s{CONFIG_MAPS}?watch=1")
        assert await watch.content.readline()
    with pytest.raises(RuntimeError, match="not run"):
        server.list("nodes")


def test_options_are_the_servers() -> None:
    """An option that there is not is named at once."""
    with pytest.raises(TypeError, match="emulated_version"):
        application(emulated_versoin="1.34")  # type: ignore[call-arg]
