"""A client of HTTP/2 that sends any bytes, and reads only how the server ends the connection."""

from __future__ import annotations

import ssl
import time
from types import TracebackType
from typing import Self

from scripts.torture.attacks.case import Target
from understudy.apiserver.server.http2.encoder import PlainEncoder
from understudy.apiserver.server.http2.frames import GOAWAY, HEAD, SETTINGS, FrameCutter, frame
from understudy.apiserver.server.http2.reader import PREFACE

PRIORITY, RST_STREAM, PING, WINDOW_UPDATE = 2, 3, 6, 8
PADDED = 8
_LONGEST = 1 << 24
_PATIENCE = 5.0  # seconds in which the server may take what is sent
_GOODBYE = 2.0  # seconds that the last frames of the server may take


def setting(code: int, value: int) -> bytes:
    """Return a setting, as frames of SETTINGS list them."""
    return code.to_bytes(2) + value.to_bytes(4)


def head(target: Target, method: str, path: str) -> bytes:
    """Return the headers of a request of the administrator, which need no table."""
    fields = {
        ":method": method,
        ":scheme": "https",
        ":authority": "a",
        ":path": path,
        "authorization": f"Bearer {target.token}",
        "content-type": "application/json",
    }
    block = PlainEncoder().encode([(name.encode(), value.encode()) for name, value in fields.items()])
    return block[1:]  # without the byte that says that there is no table


class Client:
    """A connection.

    settings  the client's, beside those that it need not say
    reads     whether it reads what comes
    """

    def __init__(self, target: Target, settings: bytes = b"", *, reads: bool = True) -> None:
        self._reads = reads
        self._socket = target.connect(protocol="h2")
        self._cutter = FrameCutter()
        self._is_closed = False
        self._code: int | None = None  # of a GOAWAY
        self._how = "closed"
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send bytes, and read what has come; report whether the server has taken them and goes on."""
        self._socket.settimeout(_PATIENCE)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            self._is_closed, self._how = True, "waits"
        except OSError:
            self._is_closed = True
        if self._reads:
            self._read(0)
        return not self._is_closed and self._code is None

    def end(self) -> str:
        """Return the state of the connection at its end; it "waits" if the server took nothing for some seconds."""
        if self._code is None and self._reads:
            self._read(_GOODBYE if self._is_closed else 0)
        return f"GOAWAY {self._code}" if self._code is not None else self._how if self._is_closed else "open"

    def _read(self, seconds: float) -> None:
        """Read what comes in some seconds, or what has come."""
        late = time.monotonic() + seconds
        self._socket.settimeout(seconds)
        try:
            while not (seconds and time.monotonic() > late):
                if not (data := self._socket.recv(1 << 18)):
                    self._is_closed = True
                    break
                self._cutter.add(data)
                while (cut := self._cutter.take(_LONGEST)) is not None:
                    if cut[0] == GOAWAY:
                        self._code = int.from_bytes(cut[1][HEAD + 4 : HEAD + 8])
        except (ssl.SSLWantReadError, TimeoutError):
            pass
        except OSError:
            self._is_closed = True
