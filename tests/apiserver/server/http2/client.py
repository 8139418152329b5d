"""A client of HTTP/2 that sends what a test wants, and tells what came back."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hpack import Encoder

from understudy.apiserver.server.http2.frames import GOAWAY, HEAD, FrameCutter

TIMEOUT = 30.0  # seconds that what is expected may take
MAPS = "/api/v1/namespaces/default/configmaps"
Headers = list[tuple[str, str]]


@dataclass
class Answer:
    """An answer, as far as it has come; `reset` is the code of a stream that was broken off."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False
    reset: ErrorCodes | int | None = None
    continues: int = 0  # answers 100


class PlainEncoder(Encoder):
    """Compresses no letters, which takes hpack a minute for a megabyte."""

    def encode(self, headers: Headers, huffman: bool = True) -> bytes:  # type: ignore[override] # of one form only
        return super().encode(headers, huffman=False)


class Client:
    """One connection.

    answers    by the numbers of their streams
    went_away  the last stream and the code of a GOAWAY, None before one
    closed     whether the server has closed the connection
    settings   of the server
    reads_bodies  whether the server gets room for more of a body as it comes
    """

    def __init__(
        self, url: str, protocols: tuple[str, ...] = ("h2",), certificate: Path | None = None, preface: bytes = b""
    ) -> None:
        """Connect; `certificate` is a file with the client's certificate and key, if it has one.

        preface  is sent first instead of what is right
        """
        self.url = url
        address = urlsplit(url)
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(list(protocols))
        if certificate is not None:
            context.load_cert_chain(certificate)
        plain = socket.create_connection((address.hostname, address.port), timeout=TIMEOUT)
        self.socket = context.wrap_socket(plain)
        self.protocol = self.socket.selected_alpn_protocol()
        self.http2 = H2Connection(
            H2Configuration(
                client_side=True,
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.http2.encoder = PlainEncoder()
        self.authority = address.netloc
        self.answers: dict[int, Answer] = {}
        self.went_away: tuple[int, int] | None = None
        self.closed = False
        self.settings: dict[int, int] = {}
        self.reads_bodies = True
        self.pongs: list[bytes] = []
        self._cutter = FrameCutter()
        self.http2.initiate_connection()
        if preface:
            self.http2.clear_outbound_data_buffer()
            self.socket.sendall(preface)
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        try:
            self.socket.sendall(self.http2.data_to_send())
        except OSError:
            self.closed = True

    def begin(self, method: str, path: str, headers: Headers | None = None, *, ends: bool = True) -> int:
        """Send the head of a request; return the number of its stream."""
        pseudo = [(":method", method), (":scheme", "https"), (":authority", self.authority), (":path", path)]
        return self.begin_raw([*pseudo, *(headers or [])], ends=ends)

    def begin_raw(self, headers: Headers, *, ends: bool = True) -> int:
        """Send the head of a request with these headers only; return the number of its stream."""
        number = self.http2.get_next_available_stream_id()
        self.http2.send_headers(number, headers, end_stream=ends)
        self.answers[number] = Answer()
        self.flush()
        return number

    def send(self, number: int, data: bytes, *, ends: bool = True) -> None:
        """Send the rest of a body that the server has room for, or wait for the room."""
        while data:
            room = min(self.http2.local_flow_control_window(number), self.http2.max_outbound_frame_size)
            if not room:
                self.read()
                continue
            part, data = data[:room], data[room:]
            self.http2.send_data(number, part, end_stream=ends and not data)
            self.flush()

    def ask(self, method: str, path: str, headers: Headers | None = None, body: bytes = b"") -> Answer:
        """Send a request and return the whole answer."""
        number = self.begin(method, path, headers, ends=not body)
        self.send(number, body)
        return self.answer(number)

    def answer(self, number: int) -> Answer:
        """Wait for the whole answer of a stream, or its reset, and return it."""
        answer = self.answers[number]
        self.until(lambda: answer.ended or answer.reset is not None)
        return answer

    def until(self, holds: Callable[[], bool]) -> None:
        """Read until something holds."""
        while not holds():
            assert not self.closed, "the server has closed the connection"
            self.read()

    def until_closed(self) -> None:
        """Read until the server closes the connection."""
        while not self.closed:
            self.read()

    def read(self) -> None:
        """Read what comes next."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        self.closed = not data
        self._cutter.add(data)
        while (cut := self._cutter.take(1 << 24)) is not None:
            kind, frame = cut
            if kind == GOAWAY:
                payload = frame[HEAD:]
                self.went_away = int.from_bytes(payload[:4]), int.from_bytes(payload[4:8])
                continue
            for event in self.http2.receive_data(frame):
                self._on_event(event)
        if not self.closed:
            self.flush()

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.InformationalResponseReceived(stream_id=number):
                self.answers[number or 0].continues += 1
            case events.ResponseReceived(stream_id=number, headers=headers):
                answer = self.answers[number or 0]
                answer.headers = {str(name): str(value) for name, value in headers or ()}
                answer.status = int(answer.headers.pop(":status"))
            case events.DataReceived(stream_id=number, data=data, flow_controlled_length=size):
                self.answers[number or 0].body += data or b""
                if self.reads_bodies:
                    self.http2.acknowledge_received_data(size or 0, number or 0)
            case events.StreamEnded(stream_id=number):
                self.answers[number or 0].ended = True
            case events.StreamReset(stream_id=number, error_code=code):
                self.answers[number or 0].reset = code
            case events.PingAckReceived(ping_data=data):
                self.pongs.append(data or b"")
            case events.RemoteSettingsChanged(changed_settings=changed):
                self.settings = {int(code): setting.new_value for code, setting in changed.items()}
