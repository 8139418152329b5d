"""Watches over WebSockets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import aiohttp
import pytest

from tests.releases import RELEASES
from understudy import Server
from understudy.machinery.serializer.protobuf_wire import BYTES, read_fields

MAPS = "/api/v1/namespaces/default/configmaps?watch=1"
PROTOBUF = "application/vnd.kubernetes.protobuf;stream=watch"
ORIGIN = {"Origin": "http://localhost"}


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param), accept_hosts=["localhost"]) as running:
        for name in "ab":
            running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        yield running


async def messages(server: Server, query: str = "", **headers: str) -> list[aiohttp.WSMessage]:
    """Return all messages of a watch, which the server must close cleanly."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{server.url}{MAPS}&timeoutSeconds=-1{query}", headers={**ORIGIN, **headers}) as socket,
    ):
        result = [message async for message in socket]
        assert socket.close_code == aiohttp.WSCloseCode.OK
        return result


async def test_event_is_a_text_message(server: Server) -> None:
    """Each event is one text message, with its newline."""
    result = await messages(server)
    assert {message.type for message in result} == {aiohttp.WSMsgType.TEXT}
    events = [json.loads(message.data) for message in result]
    named = [event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"]
    assert named[-2:] == ["a", "b"]
    assert result[0].data.endswith("}\n")


async def test_protobuf_event_is_a_binary_message(server: Server) -> None:
    """A protobuf event is a binary message without the length that precedes it in a body."""
    result = await messages(server, Accept=PROTOBUF)
    assert {message.type for message in result} == {aiohttp.WSMsgType.BINARY}
    known = dict.fromkeys((1, 2), ("", (BYTES,)))
    assert next(read_fields(result[0].data, known, "WatchEvent"))[2] == b"ADDED"


async def test_expired_version_is_the_last_message(server: Server) -> None:
    """An error of an open watch is its last event."""
    server.compact()
    (event,) = await messages(server, "&resourceVersion=1")
    assert json.loads(event.data)["object"]["reason"] == "Expired"


@pytest.mark.parametrize("name", ["base64.binary.k8s.io", "anything"])
async def test_any_subprotocol_is_confirmed(server: Server, name: str) -> None:
    """The subprotocol that the client names is confirmed and changes nothing."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{server.url}{MAPS}", headers=ORIGIN, protocols=[name]) as socket,
    ):
        assert socket.protocol == name
        assert (await socket.receive()).type == aiohttp.WSMsgType.TEXT


@pytest.mark.parametrize(("query", "headers", "status"), [("", {}, 403), ("&resourceVersion=x", ORIGIN, 500)])
async def test_handshake_is_refused(server: Server, query: str, headers: dict[str, str], status: int) -> None:
    """A client without an Origin is refused, and an invalid watch before it begins."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{server.url}{MAPS}{query}", headers=headers)
    assert refused.value.status == status
