"""The connections of HTTP/2: many requests at once on each, which the same handler answers as those of HTTP/1.1.

The rules of the protocol are `h2`'s. Here are the bytes of a connection, the tasks that answer its requests, and the
limits of Go's server with kube-apiserver's settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import cast

from h2 import events
from h2.errors import ErrorCodes
from hpack import HPACKError, OversizedHeaderListError

from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.large_parts import LargeParts
from understudy.apiserver.server.http1.served import Handler, ServedProtocol, shut_down
from understudy.apiserver.server.http2.frames import go_away_frame
from understudy.apiserver.server.http2.reader import BrokenRuleError, FrameReader, WrongPrefaceError
from understudy.apiserver.server.http2.requests import Requests
from understudy.apiserver.server.http2.rules import LargeBlockError, Rules
from understudy.machinery.releases.version import Version

log = logging.getLogger("understudy")

_GREETING = 10.0  # seconds that the first bytes of a client may take: `prefaceTimeout`
_GOODBYE = 1.0  # seconds between a GOAWAY and the end of the connection: `goAwayTimeout`
_MOST_UNREAD = 512 * 1024  # bytes that may wait for a client: frames that it asks for again and again (PING, SETTINGS)


class Http2Server:
    """All connections of a server that speak HTTP/2, whose requests a handler answers.

    version        the release that is emulated
    most_streams   requests that a client may send at once on a connection
    goaway_chance  the share of requests behind which the client is to connect anew
    """

    def __init__(self, handle: Handler, version: Version, most_streams: int, goaway_chance: float = 0.0) -> None:
        self.handle = handle
        self.version = version
        self.most_streams = most_streams
        self.goaway_chance = goaway_chance
        self.large_parts = LargeParts()
        self.connections: set[Http2Connection] = set()

    def connect(self) -> Http2Connection:
        """Return the protocol of a new connection, in the running event loop."""
        return Http2Connection(self)

    async def shutdown(self, grace: float) -> None:
        """End all connections; requests that are being answered get some seconds to finish."""
        await shut_down(self.connections, grace)


class Http2Connection(ServedProtocol):
    """One connection. It is among the open ones of its server as long as it lasts."""

    part = 64 * 1024

    def __init__(self, server: Http2Server) -> None:
        super().__init__(server.large_parts)
        self._server = server
        self.http2 = Rules(server.most_streams, server.version)
        self.goaway_chance = server.goaway_chance
        self.is_full = False  # the client reads too slowly
        self.is_over = False  # nothing more is read
        self._reader = FrameReader(self.http2)
        self._knows_limit = False  # the client does, of streams
        self._requests = Requests(self, server.handle, server.version, server.most_streams)
        self._is_going_away = False
        self._decoding: asyncio.Task[None] | None = None  # reads large headers; nothing else is read meanwhile

    # --- called by the event loop -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to answer requests."""
        self.transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._timer = self._loop.call_later(_GREETING, self._check_greeting)
        self.transport.write(self.http2.greeting)
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """End the requests that are being answered, since their client is gone, and free the connection."""
        super().connection_lost(error)
        self.transport = None
        self.is_over = True
        self._server.connections.discard(self)
        self._reader.end()
        if self._timer is not None:
            self._timer.cancel()
        self._requests.cancel_all()

    def _regulate(self) -> None:
        """Let the client wait as long as something of what it has sent is not read yet."""
        is_full = self._waiting_parts > 0 or self._decoding is not None or self._reader.is_behind
        if is_full != self._is_paused:
            self._pause_reading(is_full)

    def pause_writing(self) -> None:
        """Pause the senders: the client reads too slowly."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Resume the senders."""
        self.is_full = False
        self._requests.wake(0)

    # --- what comes ---------------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        if self.is_over:
            return
        try:
            self._reader.add(data)
        except WrongPrefaceError:
            self.is_over = True
            self._disconnect()
        if self._decoding is None and not self._reader.is_behind:
            self._handle(self._reader.read())

    def _handle(self, received: Iterator[events.Event]) -> None:
        """Do what the client wants."""
        try:
            for event in received:
                self._on_event(event)
                if self.is_over:
                    return None
        except BrokenRuleError as error:
            log.debug("HTTP/2: %s", error)
            self._requests.newest = max(self._requests.newest, error.stream)
            if self.transport is not None:
                self.transport.write(error.unsent)
            return self.fail(error.code)
        except LargeBlockError as large:
            self._decoding = self._loop.create_task(self._decode(large.block))
        if self._reader.is_behind:
            self._server.large_parts.add(self._catch_up())
        self.flush()
        if self.is_full and self.transport is not None and self.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.transport.abort()
        return self._regulate()

    def _catch_up(self) -> Iterator[None]:
        """Read more frames in the next turn of the event loop."""
        if not self.is_over:
            self._handle(self._reader.read())
        yield from ()

    async def _decode(self, block: bytes) -> None:
        """Read large headers in a thread; then go on with what has come meanwhile."""
        try:
            await asyncio.to_thread(self.http2.decoder.decode_large, block)
        except OversizedHeaderListError:
            return self.fail(ErrorCodes.ENHANCE_YOUR_CALM)
        except (HPACKError, IndexError):
            return self.fail(ErrorCodes.COMPRESSION_ERROR)
        self._decoding = None
        if not self.is_over:
            self._handle(self._reader.reread())
        return None

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                self._begin(event)
            case events.DataReceived():
                self._requests.add(event)
            case events.StreamEnded(stream_id=number):
                self._requests.complete(number or 0)
            case events.StreamReset(stream_id=number):
                self._requests.cancel(number or 0)
            case events.WindowUpdated(stream_id=number):
                self._requests.wake(number or 0)
            case events.SettingsAcknowledged():
                self._knows_limit = True
            case events.RemoteSettingsChanged():
                self._requests.wake(0)
            case events.ConnectionTerminated():
                self.go_away()

    def _begin(self, event: events.RequestReceived) -> None:
        """Begin to answer a request; behind a GOAWAY the client sends it again on another connection."""
        if self._is_going_away:
            self.http2.reset_stream(event.stream_id or 0, ErrorCodes.REFUSED_STREAM)
        else:
            self._requests.begin(event, knows_limit=self._knows_limit)

    # --- answers ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the frames that have been made."""
        if self.transport is not None and (data := self.http2.data_to_send()):
            self.transport.write(data)

    def rest(self) -> None:
        """Note that no request is left."""
        self._idle_from = self._loop.time()
        if self._is_going_away:
            self._say_goodbye()

    # --- the end ------------------------------------------------------------------------------------------------

    def go_away(self) -> None:
        """Let no more requests come, and close the connection behind those that have come."""
        if self._is_going_away or self.transport is None:
            return
        self._is_going_away = True
        self.flush()
        self.transport.write(go_away_frame(self._requests.newest, ErrorCodes.NO_ERROR))
        if not self._requests:
            self._say_goodbye()

    def fail(self, code: ErrorCodes) -> None:
        """End the connection for an error of the client."""
        self.http2.close_connection(code, last_stream_id=self._requests.newest)
        self._hang_up()

    def _hang_up(self) -> None:
        """Send the last frames, end all requests, and read nothing more."""
        self.flush()
        self.is_over = True
        self._requests.cancel_all()
        self._say_goodbye()

    def _say_goodbye(self) -> None:
        """Close the connection when the client has had the time to read why."""
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self._timer = self._loop.call_later(_GOODBYE, self._disconnect)

    def _disconnect(self) -> None:
        """Close the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _check_greeting(self) -> None:
        """Close the connection of a client that has not said what it wants."""
        if not self._reader.has_settings:
            self._disconnect()
        else:
            self._check_idle()

    def _is_busy(self) -> bool:
        return bool(self._requests)

    def _close_if_idle(self) -> None:
        self.go_away()

    def answer_with(self, handle: Handler) -> None:
        """Let another handler answer the requests to come."""
        self._requests.handle = handle

    @property
    def answering(self) -> AbstractSet[Exchange]:
        """Return the requests that are being answered."""
        return self._requests.answering

    async def drain(self) -> None:
        """Accept no more requests, and close the connection when those that are being answered have been."""
        self.go_away()
        await self._requests.finish(None)

    async def shutdown(self, grace: float) -> None:
        """Close the connection. Requests that are being answered get some seconds to finish."""
        self.go_away()
        await self._requests.finish(grace)
        self._disconnect()
