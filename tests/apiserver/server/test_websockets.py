"""Watches over WebSockets, and the frames of these."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.http import TIMEOUT
from tests.releases import RELEASES
from tests.waiting import until
from understudy import Server
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.apiserver.server.http1.websocket import CLOSE, PING, TEXT, FrameError, FrameReader, accept_key, frame
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


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("", {}, 403),
        ("&resourceVersion=x", ORIGIN, 500),
        *(("", {"Origin": text}, 403) for text in ("::", "null", "http://[::1")),
    ],
)
async def test_handshake_is_refused(server: Server, query: str, headers: dict[str, str], status: int) -> None:
    """A client without a URL as its Origin is refused, and an invalid watch before it begins."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{server.url}{MAPS}{query}", headers=headers)
    assert refused.value.status == status


async def test_ping_is_answered(server: Server) -> None:
    """The server answers a ping with its data, and ends the watch when the client closes the WebSocket."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{server.url}{MAPS}", headers=ORIGIN, autoping=False) as connection,
    ):
        await connection.ping(b"there?")
        while (message := await connection.receive(TIMEOUT)).type != aiohttp.WSMsgType.PONG:
            assert message.type == aiohttp.WSMsgType.TEXT
        assert message.data == b"there?"
        await connection.close()
        assert connection.close_code == aiohttp.WSCloseCode.OK


@pytest.mark.parametrize(
    ("sent", "last"),
    [
        (b"\x81\x01a", b"}\n\x88\x02\x03\xea\x88\x02\x03\xe8"),  # not masked: 1002, protocol error, then 1000
        (b"\x88\x80\0\0\0\0", b"}\n\x88\x02\x03\xe8"),  # closed: 1000, confirmed
        (b"\x88\x84\0\0\0\0\x03\xe9hi", b"}\n\x88\x02\x03\xe8"),  # closed with 1001 and a reason: 1000 as well
        (b"\x88\x80\0\0\0\0\x89\x82\0\0\0\0ab", b"}\n\x88\x02\x03\xe8"),  # a ping behind the end: not answered
    ],
)
def test_frame_that_ends_the_watch(server: Server, sent: bytes, last: bytes) -> None:
    """A wrong frame and a closing frame are answered by a closing frame, and the connection ends."""
    address = urlsplit(server.url)
    request = (
        f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(request.encode() + sent)  # at once: the frame may come before the answer
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert answer.endswith(last)


def masked(opcode: int, payload: bytes, final: bool = True) -> bytes:
    """Return a frame of a client, with a mask."""
    mask = b"\x01\x02\x03\x04"
    plain = frame(opcode, payload)
    head = bytearray(plain[: len(plain) - len(payload)])
    head[1] |= 0x80
    head[0] &= 0xFF if final else 0x7F
    return bytes(head) + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_messages_of_clients_are_passed_over(size: int) -> None:
    """A reader yields control frames only, however the bytes come, and keeps nothing of long messages."""
    data = b"".join(
        (
            masked(TEXT, b"a" * 125, final=False),
            masked(PING, b"between"),
            masked(0, b"b" * 126),
            masked(TEXT, b"c" * 70_000),
            masked(CLOSE, b"\x03\xe8"),
        )
    )
    reader = FrameReader()
    frames = [item for at in range(0, len(data), size) for item in reader.read(data[at : at + size])]
    assert frames == [(PING, b"between"), (CLOSE, b"\x03\xe8")]


def test_frame_without_a_mask_is_refused() -> None:
    """A frame that is not masked is refused (RFC 6455, 5.2)."""
    with pytest.raises(FrameError):
        list(FrameReader().read(frame(TEXT, b"not masked")))


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (masked(PING, b"a" * 128) + masked(PING, b"b"), [(PING, b"a" * 125), (PING, b"b")]),
        (masked(PING, b"in parts", final=False), [(PING, b"in parts")]),
        (masked(3, b"unknown"), []),
        (b"\xc1" + masked(TEXT, b"compressed")[1:], []),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_odd_frame_is_forgiven(data: bytes, frames: list[tuple[int, bytes]], size: int) -> None:
    """Other frames that RFC 6455 forbids are read as Go's server reads them: a long ping is answered in part."""
    reader = FrameReader()
    assert [item for at in range(0, len(data), size) for item in reader.read(data[at : at + size])] == frames


def test_accept_key() -> None:
    """The key of a handshake is confirmed (the example of RFC 6455)."""
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class Pipe(asyncio.Transport):
    """A transport that notes whether it is read."""

    is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


async def test_client_that_does_not_read_must_wait() -> None:
    """The server stops reading from a client of another protocol as long as that one does not read its answers."""
    received: list[bytes] = []

    async def handle(exchange: Exchange) -> None:
        assert isinstance(exchange, Http1Exchange)
        await exchange.upgrade({}, received.append)
        await asyncio.Event().wait()

    protocol, pipe = HTTPServer(handle).connect(), Pipe()
    protocol.connection_made(pipe)
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nping")
    await until(lambda: received == [b"ping"])
    protocol.pause_writing()
    assert not pipe.is_read
    protocol.resume_writing()
    assert pipe.is_read
    protocol.data_received(b"x" * 100_000)
    assert not pipe.is_read  # for one turn of the event loop
    await until(lambda: pipe.is_read)
    protocol.connection_lost(None)
