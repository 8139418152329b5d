"""HTTP/2 to webhooks: many calls at once over one connection, with Go's texts for what goes wrong (net/http, http2).

The rules of the protocol are `h2`'s; here are the bytes of a connection, and who waits for which answer. A server that
goes away (GOAWAY) may still answer what it has begun; `h2` would not let it, and is not told.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from types import TracebackType
from typing import Self, cast

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from multidict import CIMultiDict

from understudy.apiserver.server.http1.ends import EndingProtocol
from understudy.apiserver.server.http2.frames import GOAWAY, HEAD, FrameCutter
from understudy.apiserver.server.webhooks.http2_errors import Http2Error, NotProcessedError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple

_GZIP = 16 + zlib.MAX_WBITS


class Http2Response:
    """An answer, with the members of aiohttp's that a call of a webhook needs.

    problem  text of the error that ended the body, "" if it is whole
    """

    def __init__(self, headers: CIMultiDict[str]) -> None:
        self.status = int(headers[":status"])
        self.headers = headers
        self.problem = ""
        self._body = bytearray()

    def add(self, data: bytes) -> None:
        """Add a part of the body."""
        self._body += data

    async def read(self) -> bytes:
        """Return the body. Raises Http2Error."""
        if self.problem:
            raise Http2Error(self.problem)
        body = bytes(self._body)
        if self.headers.get("Content-Encoding") != "gzip":
            return body
        try:
            return zlib.decompress(body, _GZIP)
        except zlib.error:
            raise Http2Error("gzip: invalid header") from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the answer has been received."""


class _GoAway(NamedTuple):
    """A GOAWAY frame of a server: the last stream that it looks at, and why it goes."""

    last: int
    code: int
    debug: bytes


class _Stream:
    """One request on a connection, with the bytes of its body that are still to be sent."""

    def __init__(self, body: bytes) -> None:
        self.unsent = memoryview(body)
        self.response: Http2Response | None = None
        self.answered: asyncio.Future[Http2Response] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Hand the answer over, which has been received."""
        if self.response is not None and not self.answered.done():
            self.answered.set_result(self.response)

    def fail(self, error: Http2Error) -> None:
        """End the request without a whole answer."""
        self.unsent = memoryview(b"")
        if self.response is not None:
            self.response.problem = str(error)
            self.end()
        elif not self.answered.done():
            self.answered.set_exception(error)


class Http2Connection(EndingProtocol):
    """A connection to a server that has agreed to HTTP/2."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._http2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._going_away: _GoAway | None = None
        self._error: Http2Error | None = None  # after which nothing can be sent
        self._cutter = FrameCutter()

    @property
    def tls(self) -> ssl.SSLObject:
        """Return the connection of TLS."""
        return cast("ssl.SSLObject", self.transport.get_extra_info("ssl_object"))

    @property
    def is_open(self) -> bool:
        """Report whether requests can be sent."""
        return not self.transport.is_closing() and self._going_away is None

    @property
    def has_room(self) -> bool:
        """Report whether the server takes another request now."""
        return self._http2.open_outbound_streams < self._http2.remote_settings.max_concurrent_streams

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self._http2.initiate_connection()
        self._flush()

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Http2Response:
        """Send a request and return its answer, on a connection that has room.

        `url` is AUTHORITY/PATH. Raises Http2Error.
        """
        if self._error is not None:
            raise self._error
        if self._going_away is not None:
            raise NotProcessedError("http2: server is going away")
        authority, slash, path = url.partition("/")
        pseudo = [(":authority", authority), (":method", method), (":path", slash + path), (":scheme", "https")]
        own = [(name.lower(), value) for name, value in headers.items() if name != "Host"]
        if body:
            own.append(("content-length", str(len(body))))
        number, stream = self._http2.get_next_available_stream_id(), _Stream(body)
        self._streams[number] = stream
        self._http2.send_headers(number, pseudo + own, end_stream=not body)
        self._send_body(number, stream)
        self._flush()
        try:
            return await stream.answered
        finally:
            is_given_up = self._streams.pop(number, None) is not None
            if (is_given_up or stream.unsent) and not self.transport.is_closing():
                self._http2.reset_stream(number, ErrorCodes.CANCEL)
                self._flush()
            self._close_if_done()

    def _close_if_done(self) -> None:
        """Close the connection once the server that goes away has answered everything."""
        if self._going_away is not None and not self._streams:
            self.transport.close()

    def _send_body(self, number: int, stream: _Stream) -> None:
        """Send of a body what the server has room for."""
        while stream.unsent:
            size = min(self._http2.local_flow_control_window(number), self._http2.max_outbound_frame_size)
            if size <= 0:
                return
            part, stream.unsent = stream.unsent[:size], stream.unsent[size:]
            self._http2.send_data(number, bytes(part), end_stream=not stream.unsent)

    def _flush(self) -> None:
        self.transport.write(self._http2.data_to_send())

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the server."""
        try:
            self._cutter.add(data)
            while (cut := self._cutter.take(self._http2.max_inbound_frame_size)) is not None:
                kind, frame = cut
                if kind == GOAWAY:
                    self._go_away(frame[HEAD:])
                    continue
                for event in self._http2.receive_data(frame):
                    self._on_event(event)
        except ProtocolError as error:
            self._fail(Http2Error(f"http2: {error}"))
            self._flush()
            self.transport.close()
            return
        for number, stream in self._streams.items():
            self._send_body(number, stream)
        self._flush()

    def _go_away(self, payload: bytes) -> None:
        last, code = int.from_bytes(payload[:4]) & 0x7FFFFFFF, int.from_bytes(payload[4:8])
        self._going_away = _GoAway(last, code, payload[8:])
        for number in [number for number in self._streams if number > last]:
            self._streams.pop(number).fail(NotProcessedError("http2: server is going away"))
        self._close_if_done()

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.DataReceived(stream_id=number, data=data, flow_controlled_length=size):
                self._http2.acknowledge_received_data(size or 0, number or 0)
                if (stream := self._streams.get(number or 0)) and stream.response is not None:
                    stream.response.add(data or b"")
            case events.ResponseReceived(stream_id=number, headers=headers):
                if stream := self._streams.get(number or 0):
                    stream.response = Http2Response(CIMultiDict((str(n), str(v)) for n, v in headers or ()))
            case events.StreamEnded(stream_id=number):
                if stream := self._streams.pop(number or 0, None):
                    stream.end()
            case events.StreamReset(stream_id=number, error_code=code):
                if stream := self._streams.pop(number or 0, None):
                    kind = NotProcessedError if code == ErrorCodes.REFUSED_STREAM else Http2Error
                    stream.fail(kind(f"stream error: stream ID {number}; {_code(code)}; received from peer"))

    def connection_lost(self, error: Exception | None) -> None:
        """Give up the requests that are not answered."""
        super().connection_lost(error)
        text, last = "unexpected EOF", self._going_away
        if last is not None:
            debug = go_quote(last.debug.decode(errors="replace"))
            fields = f"LastStreamID={last.last}, ErrCode={_code(last.code)}, debug={debug}"
            text = f"http2: server sent GOAWAY and closed the connection; {fields}"
        self._fail(Http2Error(text))

    def _fail(self, error: Http2Error) -> None:
        self._error = self._error or error
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.fail(error)


def _code(code: int | None) -> str:
    """Return the name of an error code as Go writes it."""
    try:
        return ErrorCodes(code or 0).name
    except ValueError:
        return f"unknown error code 0x{code or 0:x}"
