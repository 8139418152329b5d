"""WebSockets (RFC 6455) of a server that sends messages and reads none: frames as bytes, no connection."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
NORMAL_CLOSURE, PROTOCOL_ERROR = 1000, 1002
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


class FrameError(Exception):
    """A frame that breaks the protocol."""


class FrameReader:
    """Reads the frames of a client. It passes over messages, and so keeps no more than a control frame.

    It forgives what Go's server forgives (`golang.org/x/net/websocket`): only a frame without a mask is an error.
    """

    def __init__(self) -> None:
        self._data = b""
        self._skipped = 0  # bytes that are still to come of what is not read

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and payload of the control frames that data completes. Raises FrameError."""
        data = self._data + data
        at, end = self._skipped, len(data)
        while at + 2 <= end:
            opcode, second = data[at] & 0x0F, data[at + 1]
            if not second & _MASKED:
                raise FrameError
            length = second & 0x7F
            begin = at + 2 + _EXTENDED.get(length, 0) + _MASK
            if begin > end:
                break
            if length in _EXTENDED:
                length = int.from_bytes(data[at + 2 : begin - _MASK], "big") & _MAX_LENGTH
            if opcode in (CLOSE, PING, PONG):
                kept = begin + min(length, _MAX_PAYLOAD)
                if kept > end:
                    break
                yield opcode, _unmasked(data[begin:kept], data[begin - _MASK : begin])
            at = begin + length
        self._data, self._skipped = data[at:], max(at - end, 0)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[i % _MASK] for i, byte in enumerate(payload))
