"""WebSockets (RFC 6455) of a server that sends messages and reads none: frames as bytes, no connection."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
NORMAL_CLOSURE, PROTOCOL_ERROR = 1000, 1002
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FINAL, _RESERVED, _MASKED = 0x80, 0x70, 0x80
_MASK = 4  # bytes of the mask that every frame of a client has
_EXTENDED = {126: 2, 127: 8}  # bytes of a length that does not stand in the second byte


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
    """Reads the frames of a client. It passes over messages, and so keeps no more than a control frame."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._skipped = 0  # bytes of a message that are still to come

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield opcode and payload of the control frames that data completes. Raises FrameError."""
        self._data += data
        while self._skip():
            first, second = self._data[:2]
            opcode, length = first & 0x0F, second & 0x7F
            if first & _RESERVED or not second & _MASKED or opcode not in (0, TEXT, BINARY, CLOSE, PING, PONG):
                raise FrameError
            begin = 2 + _EXTENDED.get(length, 0)
            if opcode >= CLOSE:
                if length > 125 or not first & _FINAL:
                    raise FrameError
                if len(self._data) < begin + _MASK + length:
                    return
                mask, payload = self._data[begin : begin + _MASK], self._data[begin + _MASK : begin + _MASK + length]
                del self._data[: begin + _MASK + length]
                yield opcode, bytes(byte ^ mask[i % _MASK] for i, byte in enumerate(payload))
            elif len(self._data) < begin:
                return
            else:
                size = int.from_bytes(self._data[2:begin], "big") if length in _EXTENDED else length
                self._skipped = begin + _MASK + size

    def _skip(self) -> bool:
        """Drop what has come of a message; report whether another frame has begun behind it."""
        passed = min(self._skipped, len(self._data))
        del self._data[:passed]
        self._skipped -= passed
        return len(self._data) >= 2
