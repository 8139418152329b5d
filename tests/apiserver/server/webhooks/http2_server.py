"""A webhook server that speaks HTTP/2 only, and does to its clients what a test wants."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.settings import SettingCodes

from understudy.machinery.types import Obj


@dataclass
class Asked:
    """A request: the number of its connection and of its stream, its headers and its body."""

    connection: int
    stream: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)


def allow(asked: Asked) -> bytes:
    """Return the review that allows what an AdmissionReview asks; an empty object for anything else."""
    review: Obj = json.loads(asked.body)
    if "request" not in review:
        return b"{}"
    return json.dumps({**review, "response": {"uid": review["request"]["uid"], "allowed": True}}).encode()


class Http2Server:
    """Answers with what `answer` returns, on every connection; `asked` are the requests that came.

    misdeeds       are done to the next requests instead of answering them, one for each; None answers
    most_streams   that a client may have at once on a connection
    held           answers nothing until it is set
    """

    def __init__(self) -> None:
        self.answer: Callable[[Asked], bytes] = allow
        self.misdeeds: list[Callable[[ServerConnection, Asked], None] | None] = []
        self.most_streams = 100
        self.headers: dict[str, str] = {}
        self.held: asyncio.Event | None = None
        self.connections: list[ServerConnection] = []
        self.asked: list[Asked] = []

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext, port: int = 0) -> AsyncIterator[int]:
        """Listen on 127.0.0.1; yield the port."""
        context.set_alpn_protocols(["h2"])
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ServerConnection(self), "127.0.0.1", port, ssl=context)
        async with server:
            yield server.sockets[0].getsockname()[1]
            for connection in self.connections:
                connection.transport.abort()


class ServerConnection(asyncio.Protocol):
    """One connection of a client."""

    transport: asyncio.Transport

    def __init__(self, server: Http2Server) -> None:
        self._server = server
        self._http2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._requests: dict[int, Asked] = {}
        self._unsent: dict[int, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.number = 0
        self.resets: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.number = len(self._server.connections)
        self._server.connections.append(self)
        self._http2.initiate_connection()
        self._http2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self._server.most_streams})
        self._flush()

    def _flush(self) -> None:
        self.transport.write(self._http2.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self._http2.receive_data(data):
            self._on_event(event)
        self._flush()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            number = event.stream_id or 0
            headers = {str(name): str(value) for name, value in event.headers or ()}
            self._requests[number] = Asked(self.number, number, headers)
        elif isinstance(event, DataReceived):
            self._requests[event.stream_id or 0].body.extend(event.data or b"")
            self._http2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        elif isinstance(event, StreamEnded):
            asked = self._requests.pop(event.stream_id or 0)
            self._server.asked.append(asked)
            task = asyncio.get_running_loop().create_task(self._answer(asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif isinstance(event, StreamReset):
            self.resets.append(event.stream_id or 0)
            self._unsent.pop(event.stream_id or 0, None)
        elif isinstance(event, WindowUpdated):
            for number in list(self._unsent):
                self._send(number)
        elif isinstance(event, ConnectionTerminated):
            self.transport.close()

    async def _answer(self, asked: Asked) -> None:
        misdeeds = self._server.misdeeds
        if misdeeds and (misdeed := misdeeds.pop(0)) is not None:
            misdeed(self, asked)
            return self._flush()
        if self._server.held is not None:
            await self._server.held.wait()
        if asked.stream in self.resets or self.transport.is_closing():
            return None
        self.begin_answer(asked)
        self.send_whole(asked)
        return self._flush()

    def begin_answer(self, asked: Asked) -> None:
        """Send the head of an answer."""
        headers = {":status": "200", "content-type": "application/json", **self._server.headers}
        self._http2.send_headers(asked.stream, list(headers.items()))

    def send_part(self, asked: Asked, data: bytes) -> None:
        """Send a part of a body, and leave it at that."""
        self._http2.send_data(asked.stream, data)
        self._flush()

    def send_whole(self, asked: Asked) -> None:
        """Send the body of an answer."""
        self._unsent[asked.stream] = self._server.answer(asked)
        self._send(asked.stream)

    def _send(self, number: int) -> None:
        """Send of a body what the client has room for."""
        body = self._unsent.pop(number)
        while body:
            size = min(self._http2.local_flow_control_window(number), self._http2.max_outbound_frame_size)
            if not size:
                self._unsent[number] = body
                return
            part, body = body[:size], body[size:]
            self._http2.send_data(number, part)
        self._http2.end_stream(number)

    def reset(self, asked: Asked, code: ErrorCodes) -> None:
        """End a stream without an answer."""
        self._http2.reset_stream(asked.stream, code)

    def go_away(self, last: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Tell the client to send nothing any more; streams up to `last` may still be answered."""
        head = bytes(
            (0, 0, 8, 7, 0, 0, 0, 0, 0)
        )  # length, type, flags and stream of a GOAWAY, which h2 sends only last
        self.transport.write(head + last.to_bytes(4) + code.to_bytes(4))

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()


def refuse(connection: ServerConnection, asked: Asked) -> None:
    connection.reset(asked, ErrorCodes.REFUSED_STREAM)


def fail(connection: ServerConnection, asked: Asked) -> None:
    connection.reset(asked, ErrorCodes.INTERNAL_ERROR)


def drop(connection: ServerConnection, asked: Asked) -> None:
    connection.close()


def go_away_before(connection: ServerConnection, asked: Asked) -> None:
    """Go away without having looked at the request."""
    connection.go_away(max(asked.stream - 2, 0))
    connection.close()


def go_away_gracefully(connection: ServerConnection, asked: Asked) -> None:
    """Go away, and answer the request then, as Go's server does."""
    connection.go_away(2**31 - 1)
    connection.go_away(asked.stream)
    connection.begin_answer(asked)
    connection.send_whole(asked)


def go_away_after(connection: ServerConnection, asked: Asked) -> None:
    """Go away after having looked at the request, without an answer."""
    connection.go_away(asked.stream, ErrorCodes.ENHANCE_YOUR_CALM)
    connection.close()


def break_off(connection: ServerConnection, asked: Asked) -> None:
    """End a stream in the middle of its answer."""
    connection.begin_answer(asked)
    connection.send_part(asked, b"{")
    connection.reset(asked, ErrorCodes.INTERNAL_ERROR)


def drop_half(connection: ServerConnection, asked: Asked) -> None:
    """Close the connection in the middle of an answer."""
    connection.begin_answer(asked)
    connection.send_part(asked, b"{")
    connection.close()
