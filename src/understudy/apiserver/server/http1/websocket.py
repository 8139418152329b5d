"""WebSockets (RFC 6455) of a server: frames as bytes, no connection."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL_CLOSURE, PROTOCOL_ERROR, TOO_BIG = 1000, 1002, 1009
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL, _MASKED = 0x80, 0x80
_MAX_PAYLOAD = 125  # bytes of a control frame that are read
_MAX_LENGTH = (1 << 63) - 1
_MASK = 4  # bytes of the mask that every frame of a client has
_EXTENDED = {126: 2, 127: 8}  # bytes of a length that does not fit the second byte


def accept_key(key: str) -> str:
    """Return the value of Sec-WebSocket-Accept for that of Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1(key.encode("utf-8", "surrogateescape") + _KEY).digest()).decode()


def frame(opcode: int, payload: bytes) -> bytes:
    """Return the only frame of a message."""
    length = len(payload)
    if length < 126:
        head = bytes((_FINAL | opcode, length))
    elif length < 1 << 16:
        head = bytes((_FINAL | opcode, 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, 127)) + length.to_bytes(8, "big")
    return head + payload


def close_frame(code: int) -> bytes:
    """Return the frame that ends a WebSocket."""
    return frame(CLOSE, code.to_bytes(2, "big"))


def handshake_refusal(headers: Mapping[str, str], method: str = "GET") -> str:
    """Return the status and page that refuse a WebSocket, "" if it may begin (`ReadHandshake`)."""
    if method != "GET":
        return "405 Method Not Allowed\r\n\r\nbad method"
    if not headers.get("Sec-WebSocket-Key"):
        return "400 Bad Request\r\n\r\nmismatch challenge/response"
    if headers.get("Sec-WebSocket-Version") != "13":
        return "400 Bad Request\r\nSec-WebSocket-Version: 13\r\n\r\nmissing or bad WebSocket Version"
    return ""


def handshake(key: str, protocol: str = "") -> dict[str, str]:
    """Return the headers that confirm a WebSocket, with the subprotocol that was chosen, if any."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept_key(key)}
    return headers | {"Sec-WebSocket-Protocol": protocol} if protocol else headers


class FrameError(Exception):
    """A frame that breaks the protocol, or is too long; `code` is that of the answer."""

    def __init__(self, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(code)
        self.code = code


class FrameReader:
    """Reads the frames of a client.

    longest  bytes of a message's frame that is read; a longer one is an error. None passes over all messages, and so
             keeps no more than a control frame

    It forgives what Go's server forgives (`golang.org/x/net/websocket`): only a frame without a mask is an error.
    """

    def __init__(self, longest: int | None = None) -> None:
        self._longest = longest
        self._data = bytearray()
        self._skipped = 0  # bytes that are still to come of what is not read

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and payload of the frames that data completes. Raises FrameError."""
        self._data += data
        received, at = self._data, self._skipped
        end = len(received)
        try:
            while at + 2 <= end:
                opcode, second = received[at] & 0x0F, received[at + 1]
                if not second & _MASKED:
                    raise FrameError
                length = second & 0x7F
                begin = at + 2 + _EXTENDED.get(length, 0) + _MASK
                if begin > end:
                    break
                if length in _EXTENDED:
                    length = int.from_bytes(received[at + 2 : begin - _MASK], "big") & _MAX_LENGTH
                is_control = opcode in (CLOSE, PING, PONG)
                if is_control or self._longest is not None:
                    kept = begin + (min(length, _MAX_PAYLOAD) if is_control else self._checked(length))
                    if kept > end:
                        break
                    yield opcode, _unmasked(received[begin:kept], received[begin - _MASK : begin])
                at = begin + length
        finally:
            del received[:at]
            self._skipped = max(at - end, 0)

    def _checked(self, length: int) -> int:
        """Return the length of a frame. Raises FrameError for one that is too long."""
        if self._longest is not None and length > self._longest:
            raise FrameError(TOO_BIG)
        return length


def _unmasked(payload: bytearray, mask: bytearray) -> bytes:
    length = len(payload)
    pattern = (bytes(mask) * (length // _MASK + 1))[:length]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(length, "big")
