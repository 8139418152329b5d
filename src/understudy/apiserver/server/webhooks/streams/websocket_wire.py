"""WebSockets of a server whose messages carry streams, and the connection of another protocol that is no WebSocket."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.server.http1 import websocket
from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.webhooks.streams.stream import PORTION, Inboxes

LONGEST = 32 << 20  # bytes of a message that is read: golang.org/x/net/websocket


async def refuses_websocket(exchange: Http1Exchange, *, knows_protocol: bool = True) -> bool:
    """Report whether a WebSocket may not begin, and tell the client why (`newServerConn`)."""
    refusal = websocket.handshake_refusal(exchange.headers, exchange.method)
    if not refusal and knows_protocol:
        return False
    page = refusal or "403 Forbidden\r\n\r\n"
    await exchange.send_page(f"HTTP/1.1 {page}")
    return True


class UpgradedWire:
    """A connection on which another protocol is spoken."""

    def __init__(self, exchange: Http1Exchange) -> None:
        self._exchange = exchange

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the client reads too slowly. Raises ConnectionResetError if it is gone."""
        await self._exchange.send_raw(data)

    def send_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the client is gone."""
        self._exchange.send_raw_now(data)

    def hold(self, is_full: bool) -> None:
        """Let the client wait, or go on."""
        self._exchange.hold(is_full)


class WebSocketWire(UpgradedWire):
    """A WebSocket whose messages carry bytes.

    receive  takes each message
    end      is called when no more come
    opcode   that of the messages that are sent
    """

    def __init__(
        self,
        exchange: Http1Exchange,
        receive: Callable[[bytes], None],
        end: Callable[[], None],
        opcode: int = websocket.BINARY,
    ) -> None:
        super().__init__(exchange)
        self._receive = receive
        self._end = end
        self._opcode = opcode
        self._frames = websocket.FrameReader(LONGEST)
        self._is_ended = False

    async def open(self, protocol: str) -> None:
        """Confirm the WebSocket, with the subprotocol that was chosen, if any."""
        headers = websocket.handshake(self._exchange.headers["Sec-WebSocket-Key"], protocol)
        await self._exchange.upgrade(headers, self._read)

    async def send(self, data: bytes) -> None:
        """Send a message."""
        await super().send(websocket.frame(self._opcode, data))

    def send_now(self, data: bytes) -> None:
        """Send a message without waiting."""
        super().send_now(websocket.frame(self._opcode, data))

    def close(self) -> None:
        """End the WebSocket."""
        super().send_now(websocket.close_frame(websocket.NORMAL_CLOSURE))

    def _read(self, data: bytes) -> None:
        if self._is_ended:
            return
        try:
            for opcode, payload in self._frames.read(data):
                match opcode:
                    case websocket.CLOSE:
                        self._stop()
                        return
                    case websocket.PING:
                        super().send_now(websocket.frame(websocket.PONG, payload))
                    case websocket.CONTINUATION | websocket.TEXT | websocket.BINARY:
                        self._receive(payload)
        except websocket.FrameError as error:
            super().send_now(websocket.close_frame(error.code))
            self._stop()

    def _stop(self) -> None:
        self._is_ended = True
        self._end()


class WebSocketStream:
    """The messages of a WebSocket as one stream."""

    def __init__(self, exchange: Http1Exchange) -> None:
        self.wire = WebSocketWire(exchange, self._put, self._stop)
        self._inbox = Inboxes(self.wire).new()

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        return await self._inbox.read(PORTION)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self.wire.send(data)

    def close(self) -> None:
        """End the WebSocket."""
        self.wire.close()

    def _put(self, data: bytes) -> None:
        self._inbox.feed_data(data)

    def _stop(self) -> None:
        self._inbox.feed_eof()
