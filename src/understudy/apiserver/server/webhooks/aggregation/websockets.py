"""Speaks with clients over WebSockets and with kubelets over SPDY, which is all that those of many releases know.

Upstream: `StreamTranslatorHandler` for commands, whose streams are channels of the WebSocket, and `TunnelingHandler`
for ports, where the messages of the WebSocket carry SPDY itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import orjson
from multidict import CIMultiDict

from understudy.admission.webhooks import CallError
from understudy.apiserver.authentication.bearer_token import PROTOCOLS, spoken_protocols
from understudy.apiserver.endpoints.kubelets import TUNNEL_PREFIX, Location, tunneled_protocols
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.webhooks.aggregation.headers import Headers
from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade
from understudy.apiserver.server.webhooks.streams import remotecommand as names
from understudy.apiserver.server.webhooks.streams.channels import Channels
from understudy.apiserver.server.webhooks.streams.remotecommand import StreamOptions
from understudy.apiserver.server.webhooks.streams.spdy import PROTOCOL, SpdyConnection
from understudy.apiserver.server.webhooks.streams.stream import (
    SocketStream,
    SocketWire,
    beside,
    close_writer,
    copy,
    read_all,
    together,
    until_first,
)
from understudy.apiserver.server.webhooks.streams.websocket_wire import WebSocketStream, refuses_websocket
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.releases.version import V1_36, Version
from understudy.machinery.serializer.json import yaml_to_json

Dial = Callable[[], Awaitable[Upgrade]]
_ASKED_FOR = (names.V5, names.V4, names.V3, names.V2, names.V1)
_FIELDS = ("metadata", "status", "message", "reason", "details", "code")  # of a Status
_REDIRECTS = (301, 302, 303, 307, 308)
_OF_WEBSOCKETS = (PROTOCOLS, "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Upgrade", names.PROTOCOL_VERSION)


class Translation:
    """Runs a command at a kubelet for the client of a WebSocket with channels.

    dial  returns a new connection to the kubelet, or raises CallError
    """

    def __init__(self, dial: Dial, location: Location, options: StreamOptions, agent: str, release: Version) -> None:
        self._dial = dial
        self._location = location
        self._options = options
        self._release = release
        headers = {"Host": location.authority, "User-Agent": agent, "Content-Length": "0"}
        self._headers = CIMultiDict(headers | {"Connection": "Upgrade", "Upgrade": PROTOCOL})
        self._headers.extend((names.PROTOCOL_VERSION, version) for version in _ASKED_FOR)

    async def __call__(self, exchange: Exchange, _: CIMultiDict[str]) -> None:
        """Let the client speak with the command until that ends, or the client leaves."""
        assert isinstance(exchange, Http1Exchange), "HTTP/2 has no upgrades"
        if await refuses_websocket(exchange):
            return
        channels = Channels(exchange, names.V5, [self._options.stdin, False, False, False, True])
        await channels.open()
        try:
            await channels.named(self._options.first).write(b"")
            await channels.named(names.ERROR).write(await self._status(channels))
            await channels.finish()
        except ConnectionError:
            exchange.reset()

    async def _status(self, channels: Channels) -> bytes:
        """Run the command, and return the Status with which it ends."""
        try:
            await self._run(channels)
        except (names.CommandError, names.StatusOfKubelet, ValueError) as error:
            return names.failure(error)
        return names.success()

    async def _run(self, channels: Channels) -> None:
        """Run the command. Raises as `check_status`, and StatusOfKubelet or ValueError for a kubelet that refuses."""
        try:
            kubelet = await self._dial()
            status, headers = await kubelet.send("POST", self._location.target, self._headers)
        except CallError as why:
            text = str(why).removeprefix("error dialing backend: ")
            raise ValueError(f'error sending request: Post "{self._location.url}": {text}') from None
        try:
            if status in _REDIRECTS and (target := headers.get("Location")):
                raise ValueError(f'error sending request: Post "{target}": redirect not allowed')
            if status != 101 or headers.get("Upgrade", "").lower() != PROTOCOL.lower():
                raise _refusal(await kubelet.rest(headers), self._release)
            protocol = headers.get(names.PROTOCOL_VERSION, names.V1)
            names.check_status(await self._streamed(kubelet.wire(), protocol, channels), protocol)
        finally:
            await kubelet.close()

    async def _streamed(self, wire: SocketWire, protocol: str, channels: Channels) -> bytes:
        """Pass on what client and command tell each other, and return what the kubelet says at the end."""
        spdy = SpdyConnection(wire, is_server=False)
        async with beside(_receive(wire, spdy), _end_with(channels, spdy)):
            inputs, outputs = self._options.inputs(protocol), self._options.outputs
            opened = {name: await spdy.open({names.STREAM_TYPE: name}) for name in (names.ERROR, *inputs, *outputs)}
            async with beside(*(copy(channels.named(name), opened[name]) for name in inputs)):
                await together(*(copy(opened[name], channels.named(name)) for name in outputs))
                text = await read_all(opened[names.ERROR])
            spdy.close()
        return text


async def _receive(wire: SocketWire, spdy: SpdyConnection) -> None:
    """Take what the kubelet sends, until it closes the connection."""
    try:
        await wire.receive(spdy.receive)
    finally:
        spdy.end()


async def _end_with(channels: Channels, spdy: SpdyConnection) -> None:
    """End all streams of a client that leaves."""
    await channels.ended.wait()
    spdy.end()


def _refusal(text: bytes, release: Version) -> Exception:
    """Return the error for the answer of a kubelet that does not speak SPDY with us (`NewConnection`).

    Up to 1.35 a mapping in JSON or YAML is a Status if it says nothing else, and many a text is such a mapping.
    """
    words = text.decode("utf-8", "replace").strip()
    if release >= V1_36:
        return ValueError(f"unable to upgrade connection: {_message(text) or words or 'empty server response'}")
    with suppress(DecodeError):
        status = orjson.loads(yaml_to_json(text)[0])
        if isinstance(status, dict) and status.get("kind", "Status") == "Status":
            return names.StatusOfKubelet({name: status[name] for name in _FIELDS if name in status})
    return ValueError(f"unable to upgrade connection: {words}")


def _message(text: bytes) -> str:
    """Return the message or the error that an answer in JSON names, "" without one (`upgradeErrorMessage`)."""
    with suppress(orjson.JSONDecodeError):
        answer = orjson.loads(text)
        texts = [answer.get(name, "") for name in ("message", "error")] if isinstance(answer, dict) else []
        if all(isinstance(each, str) for each in texts):
            return next(filter(None, map(str.strip, texts)), "")
    return ""


def tunneled_headers(headers: Headers) -> Headers:
    """Return the headers by which SPDY is asked for, in place of a WebSocket that carries it (`createSPDYRequest`)."""
    protocols = tunneled_protocols(spoken_protocols(headers))
    for name in _OF_WEBSOCKETS:
        headers.popall(name, None)
    headers["Upgrade"], headers["Content-Length"] = PROTOCOL, "0"
    headers.extend((names.PROTOCOL_VERSION, protocol) for protocol in protocols)
    return headers


class Tunnel:
    """Passes on what the messages of a WebSocket carry, and what a kubelet sends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: Headers) -> None:
        self._kubelet = SocketStream(reader, writer)
        self._writer = writer
        self._protocol = headers.get(names.PROTOCOL_VERSION, "").strip()

    async def __call__(self, exchange: Exchange, _: CIMultiDict[str]) -> None:
        """Pass on until the client or the kubelet closes its connection."""
        assert isinstance(exchange, Http1Exchange), "HTTP/2 has no upgrades"
        client = WebSocketStream(exchange)
        try:
            await client.wire.open(f"{TUNNEL_PREFIX}{self._protocol}" if self._protocol else "")
            await until_first(copy(client, self._kubelet), copy(self._kubelet, client))
        finally:
            await close_writer(self._writer)
