"""Connections of SPDY/3.1: both sides of one in this process, and frames that break the rules."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

import pytest

from understudy.apiserver.server.webhooks.streams.spdy import SpdyConnection, SpdyStream
from understudy.apiserver.server.webhooks.streams.spdy_frames import (
    DICTIONARY,
    Frame,
    FrameReader,
    FrameWriter,
    Kind,
    SpdyError,
)
from understudy.apiserver.server.webhooks.streams.stream import PORTION, copy, read_all

HEADERS = {"streamType": "stdin", "port": "80"}


class Pipe:
    """A wire to the other side of a connection, which takes what is sent in the next turn of the event loop."""

    def __init__(self) -> None:
        self.sent = b""
        self.held: list[bool] = []
        self.take: Callable[[bytes], None] = lambda data: None

    async def send(self, data: bytes) -> None:
        self.send_now(data)

    def send_now(self, data: bytes) -> None:
        self.sent += data
        asyncio.get_running_loop().call_soon(lambda: self.take(data))

    def hold(self, is_full: bool) -> None:
        self.held.append(is_full)


class Sides:
    """A client and a server; the server accepts streams that have headers, and keeps them."""

    def __init__(self) -> None:
        self.accepted: list[SpdyStream] = []
        self.to_server, self.to_client = Pipe(), Pipe()
        self.client = SpdyConnection(self.to_server, is_server=False)
        self.server = SpdyConnection(self.to_client, is_server=True, accept=self._accept)
        self.to_server.take, self.to_client.take = self.server.receive, self.client.receive

    def _accept(self, stream: SpdyStream) -> bool:
        self.accepted.append(stream)
        return bool(stream.headers)

    async def stream(self) -> tuple[SpdyStream, SpdyStream]:
        """Open a stream, and return its two ends."""
        return await self.client.open(HEADERS), self.accepted[-1]


def test_dictionary_is_that_of_the_specification() -> None:
    """Headers are compressed with the text that both sides know beforehand."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def test_frames_come_in_pieces() -> None:
    """Frames are read however their bytes come; headers of later frames are compressed behind those of earlier ones."""
    writer, reader = FrameWriter(), FrameReader()
    data = writer.begin(1, HEADERS) + writer.begin(3, HEADERS) + writer.data(1, b"x" * 300) + writer.ping(7)
    frames = [frame for byte in data for frame in reader.read(bytes((byte,)))]
    lower = {name.lower(): value for name, value in HEADERS.items()}
    begins = [Frame(Kind.SYN_STREAM, number, headers=lower) for number in (1, 3)]
    assert frames == [*begins, Frame(Kind.DATA, 1, data=b"x" * 300), Frame(Kind.PING, 7)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x80\x02\0\1\0\0\0\0", "version 2"),
        (b"\x80\x03\0\6\0\0\0\0", "PING of 0 bytes"),
        (b"\x80\x03\0\1\0\0\0\x0e\0\0\0\1\0\0\0\0\0\0junk", "headers: .*"),
    ],
)
def test_broken_frames_are_errors(data: bytes, text: str) -> None:
    """Other versions, frames that are too short and headers that are not compressed end the connection."""
    with pytest.raises(SpdyError, match=text):
        list(FrameReader().read(data))


def test_too_many_headers_are_an_error() -> None:
    """A small frame cannot fill the memory."""
    bomb = FrameWriter().begin(1, {"a": "b" * (2 << 20)})
    assert len(bomb) < 10_000
    with pytest.raises(SpdyError, match="too many headers"):
        list(FrameReader().read(bomb))


def test_unknown_frames_are_passed_over() -> None:
    """Settings, windows and unknown kinds of frames say nothing."""
    unknown = b"".join(bytes((0x80, 3, 0, kind, 0, 0, 0, 4)) + b"abcd" for kind in (4, 9, 42))
    assert list(FrameReader().read(unknown + FrameWriter().ping(1))) == [Frame(Kind.PING, 1)]


async def test_streams_have_two_directions() -> None:
    """Each side reads what the other one writes, and the end of it; closed streams are forgotten."""
    sides = Sides()
    ours, theirs = await sides.stream()
    await ours.write(b"question")
    ours.close()
    assert await read_all(theirs) == b"question"
    await theirs.write(b"answer")
    theirs.close()
    assert await read_all(ours) == b"answer"
    assert (sides.client._streams, sides.server._streams) == ({}, {})


async def test_refused_stream_is_an_error() -> None:
    """A stream that the other side does not accept cannot be opened, nor one behind its end."""
    sides = Sides()
    with pytest.raises(ConnectionResetError):
        await sides.client.open({})
    opening = asyncio.create_task(sides.client.open(HEADERS))
    await asyncio.sleep(0)
    sides.client.end()
    with pytest.raises(ConnectionResetError):
        await opening


async def test_numbers_of_streams_grow() -> None:
    """A stream with an old number, or one of the other side's, is broken off."""
    sides = Sides()
    await sides.stream()
    for number in (1, 4):
        sides.to_client.sent = b""
        sides.server.receive(sides.client.frames.begin(number, HEADERS))
        assert sides.to_client.sent == FrameWriter().reset(number, 1)
    assert len(sides.accepted) == 1


async def test_pings_of_the_other_side_are_answered() -> None:
    """A ping with a number of the other side is sent back; one of ours is an answer."""
    sides = Sides()
    for number in (5, 6):
        sides.server.receive(FrameWriter().ping(number))
    assert sides.to_client.sent == FrameWriter().ping(5)


async def test_unread_stream_lets_the_other_side_wait() -> None:
    """The wire is held while any stream has too much that is not read, and let go when it is read."""
    sides = Sides()
    pairs = [await sides.stream() for _ in range(2)]
    for ours, _ in pairs:
        await ours.write(b"x" * (3 * PORTION))
    await asyncio.sleep(0)
    assert sides.to_client.held == [True]
    for _, theirs in pairs:
        assert len(await theirs.read()) == PORTION
        assert len(await theirs.read()) == PORTION
    assert sides.to_client.held == [True, False]


async def test_end_of_a_connection_ends_streams() -> None:
    """GOAWAY, a broken frame and a reset each end what is read; nothing is written any more then."""
    for frame in (FrameWriter().go_away(0), b"\x80\x02\0\1\0\0\0\0"):
        sides = Sides()
        ours, _ = await sides.stream()
        sides.client.receive(frame)
        assert await read_all(ours) == b""
        sides.to_server.sent = b""
        await ours.write(b"more")
        ours.close()
        assert sides.to_server.sent == b""
        assert sides.client.ended.is_set()
    sides = Sides()
    ours, theirs = await sides.stream()
    theirs.reset()
    assert await read_all(ours) == b""
    assert not sides.client.ended.is_set()


async def test_copy_closes_the_target() -> None:
    """The end of one stream becomes that of another one."""
    sides = Sides()
    ours, theirs = await sides.stream()
    other, others = await sides.stream()
    await ours.write(b"all of it")
    ours.close()
    await copy(theirs, others)
    assert await read_all(other) == b"all of it"
