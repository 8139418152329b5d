"""Calls over a Unix socket, and the texts of grpc-go for those that fail."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from understudy.controlplane.kubelet.dra.api import (
    HEALTH_V1ALPHA1,
    PREPARE,
    V1,
    WATCH,
    WIRE_NAMES,
    ClaimsRequest,
    PrepareResponse,
    WatchResourcesRequest,
    WatchResourcesResponse,
)
from understudy.machinery.serializer.rpc.grpc_channel import GRPCChannel, RPCError
from understudy.testing import FakeDriver

METHOD = f"{WIRE_NAMES[V1]}/{PREPARE}"
DIAL = (
    'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix {path}:'
    ' connect: {why}"'
)

EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the HTTP/2 frame with which a server begins


async def failure(path: Path, method: str = METHOD, timeout: float = 10.0) -> str:
    """Return the text of the error with which a call ends."""
    channel = GRPCChannel(str(path))
    try:
        with pytest.raises(RPCError) as failed:
            await channel.call(method, ClaimsRequest(), PrepareResponse, timeout)
    finally:
        await channel.close()
    return str(failed.value)


async def test_nobody_listens(root: Path) -> None:
    """The text says whether there is no socket, or nobody who listens on it."""
    path = root / "s"
    assert await failure(path) == DIAL.format(path=path, why="no such file or directory")
    with socket.socket(socket.AF_UNIX) as unused:
        unused.bind(str(path))
    assert await failure(path) == DIAL.format(path=path, why="connection refused")


async def test_errors_of_the_server(root: Path) -> None:
    """Codes have Go's names."""
    async with FakeDriver(root, hold=asyncio.Event()) as driver:
        assert (await failure(driver.endpoint, "no.Such/Method")).startswith("rpc error: code = Unimplemented desc = ")
        late = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        assert await failure(driver.endpoint, timeout=0.05) == late


async def test_driver_that_dies_in_a_call(root: Path) -> None:
    """The text says that the connection has ended, or that it was reset: there were bytes that nobody has read."""

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EMPTY_SETTINGS)
        received = b""
        while METHOD.encode() not in received and (more := await reader.read(1000)):
            received += more
        writer.close()

    path = root / "s"
    async with await asyncio.start_unix_server(die, path):
        lost = await failure(path)
    text = "rpc error: code = Unavailable desc = error reading from server: "
    assert lost in (f"{text}EOF", f"{text}read unix @->{path}: read: connection reset by peer")


async def test_stream_that_cannot_begin(root: Path) -> None:
    """A stream fails as a call does."""
    channel = GRPCChannel(str(root / "s"))
    with pytest.raises(RPCError, match="code = Unavailable"):
        await anext(channel.stream(f"{HEALTH_V1ALPHA1}/{WATCH}", WatchResourcesRequest(), WatchResourcesResponse))
    await channel.close()


async def test_channel_is_closed_under_a_call(root: Path) -> None:
    """A call whose channel is closed fails, and its task goes on; a task that is cancelled ends."""
    path = root / "s"
    with socket.socket(socket.AF_UNIX) as silent:  # it takes connections, and never says a word
        silent.bind(str(path))
        silent.listen()
        channel = GRPCChannel(str(path))
        calls = [asyncio.create_task(channel.call(METHOD, ClaimsRequest(), PrepareResponse, 60.0)) for _ in range(2)]
        await asyncio.sleep(0.05)
        calls[0].cancel()
        await channel.close()
        done = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(error) for error in done] == [
        "",
        "rpc error: code = Canceled desc = grpc: the client connection is closing",
    ]
    assert calls[0].cancelled()
