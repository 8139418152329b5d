"""Exchanges of HTTP/2 that are compared with a real server's.

    python -m tests.apiserver.server.http2.exchanges https://127.0.0.1:6443 TOKEN > recorded/RELEASE.jsonl

prints what a server answers, one exchange a line: the name of the case, and what came back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tests.apiserver.server.http2.client import MAPS, Answer, Client, Headers
from understudy.apiserver.server.http2.encoder import PlainEncoder
from understudy.apiserver.server.http2.frames import frame
from understudy.apiserver.server.http2.reader import PREFACE

Outcome = dict[str, Any]
METHOD, SCHEME, PATH, AUTHORITY = (":method", "GET"), (":scheme", "https"), (":path", "/healthz"), (":authority", "a")
HEALTHZ = [METHOD, SCHEME, PATH, AUTHORITY]
_OWN = ("date", "audit-id")  # headers that differ each time, as those that end with "uid"


PING = frame(6, 0, 0, b"12345678")


def _outcome(client: Client, answer: Answer) -> Outcome:
    """Return the parts of an answer that are compared, and the end of its connection."""
    headers = {name: value for name, value in answer.headers.items() if name not in _OWN and not name.endswith("uid")}
    return {
        "status": answer.status,
        "headers": dict(sorted(headers.items())),
        "body": answer.body.decode(),
        "reset": None if answer.reset is None else int(answer.reset),
        "went_away": client.went_away,
    }


def _ask(client: Client, token: Headers, headers: Headers, data: bytes = b"", *, waits: bool = False) -> Outcome:
    """Send a request with headers only.

    data   is its body
    waits  whether the server goes away behind it, or resets the stream
    """
    number = client.begin_raw([*headers, *token], ends=not data)
    if data:
        client.send(number, data)
    answer = client.answers[number]
    client.until(lambda: client.went_away is not None or answer.reset is not None or bool(answer.ended and not waits))
    return _outcome(client, answer)


def _open(client: Client, token: Headers) -> Outcome:
    """Send a request whose body does not come to its end, but the answer."""
    number = client.begin_raw([*HEALTHZ, *token], ends=False)
    answer = client.answer(number)
    client.until(lambda: answer.reset is not None)
    return _outcome(client, answer)


def _settings(client: Client, token: Headers) -> Outcome:
    client.ask("GET", "/healthz", token)
    return {"settings": client.settings, "window": client.http2.outbound_flow_control_window}


def _frames(client: Client, token: Headers, parts: Sequence[bytes]) -> Outcome:
    """Send frames behind a first request, which end the connection."""
    client.ask("GET", "/healthz", token)
    client.socket.sendall(b"".join(parts))
    client.until(lambda: client.went_away is not None)
    return {"went_away": client.went_away}


def _block(client: Client, token: Headers, rest: bytes = b"", continuations: int = 0) -> Outcome:
    """Send headers with a rest of their compressed form, and empty CONTINUATIONs."""
    fields = [(name.encode(), value.encode()) for name, value in [*HEALTHZ, *token]]
    block = PlainEncoder().encode(fields)[1:] + rest
    number = client.http2.get_next_available_stream_id()
    client.http2.send_headers(
        number, [*HEALTHZ, *token], end_stream=True
    )  # counts the stream; these bytes are not sent
    client.http2.clear_outbound_data_buffer()
    answer = client.answers[number] = Answer()
    begin = frame(1, 5, number, block)
    if continuations:
        begin = frame(1, 1, number, block) + frame(9, 0, number) * (continuations - 1) + frame(9, 4, number)
    client.socket.sendall(begin)
    client.until(lambda: answer.ended or answer.reset is not None or client.went_away is not None)
    return _outcome(client, answer)


def _watch_of_one_who_leaves(client: Client, token: Headers) -> Outcome:
    """Go away while a watch is open, which comes to its end."""
    number = client.begin("GET", f"{MAPS}?watch=true&timeoutSeconds=1", token)
    answer = client.answers[number]
    client.until(lambda: answer.status > 0)
    client.socket.sendall(frame(7, 0, 0, bytes(8)))
    client.answer(number)
    client.until_closed()
    return _outcome(client, answer)


def _greeted(preface: bytes, client: Client, token: Headers) -> Outcome:
    """Begin a connection of its own with other bytes."""
    with Client(client.url, preface=preface) as other:
        other.until_closed()
        return {"went_away": other.went_away}


def _changed(**changes: str) -> Headers:
    """Return the headers of a request with other values; those of "" are left out."""
    pairs = [(name, changes.get(name[1:], value)) for name, value in HEALTHZ]
    return [(name, value) for name, value in pairs if value]


_POST = [*_changed(method="POST", path=MAPS), ("content-type", "application/json")]
_LINE = ("x", "y" * 16_000)
_BOMB = b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 8000  # a header of 4,000 bytes, 8,000 times

_HEADERS: dict[str, Headers] = {
    "get": HEALTHZ,
    "missing": _changed(path=f"{MAPS}/none"),
    "HEAD": _changed(method="HEAD"),
    "HEAD of an object": _changed(method="HEAD", path=f"{MAPS}/none"),
    "no path": _changed(path=""),
    "no method": _changed(method=""),
    "no scheme": _changed(scheme=""),
    "no authority": _changed(authority=""),
    "two paths": [*HEALTHZ, (":path", "/")],
    "unknown pseudo-header": [*HEALTHZ, (":protocol", "websocket")],
    "late pseudo-header": [METHOD, SCHEME, PATH, ("x", "y"), AUTHORITY],
    "upper case": [*HEALTHZ, ("Accept", "a")],
    "a user": _changed(authority="u@a"),
    "scheme ftp": _changed(scheme="ftp"),
    "scheme http": _changed(scheme="http"),
    "bad escape": _changed(path="/%zz"),
    "a URL as path": _changed(path="https://b/healthz"),
    "a relative path": _changed(path="healthz"),
    "star": _changed(path="*"),
    "OPTIONS star": _changed(method="OPTIONS", path="*"),
    "CONNECT": [(":method", "CONNECT")],
    "CONNECT of an authority": [(":method", "CONNECT"), (":authority", "a:443")],
    "method in lower case": _changed(method="get"),
    "connection": [*HEALTHZ, ("connection", "close")],
    "upgrade": [*HEALTHZ, ("upgrade", "websocket")],
    "te gzip": [*HEALTHZ, ("te", "gzip")],
    "te trailers": [*HEALTHZ, ("te", "trailers")],
    "keep-alive": [*HEALTHZ, ("keep-alive", "1")],
    "expect": [*HEALTHZ, ("expect", "200-ok")],
    "control character": [*HEALTHZ, ("x", "a\0b")],
    "1 MB of headers": [*HEALTHZ, *[_LINE] * 70],
}
_BAD_FRAMES: dict[str, Sequence[bytes]] = {
    "data of no stream": [frame(0, 0, 0, b"a")],
    "data of an idle stream": [frame(0, 0, 9, b"a")],
    "a short ping": [frame(6, 0, 0, b"short")],
    "a large frame": [b"\xff\xff\xff\0\0\0\0\0\1"],
    "a ping within headers": [frame(1, 0, 3), PING],
    "settings within headers": [frame(1, 0, 3), frame(4, 0, 0)],
    "a continuation of another stream": [frame(1, 0, 3), frame(9, 4, 5)],
    "a continuation of nothing": [frame(9, 4, 3)],
    "an even stream": [frame(1, 5, 2, b"\x82")],
    "a push": [frame(5, 4, 3, b"\0\0\0\2")],
    "a window beyond all": [frame(8, 0, 0, b"\x7f\xff\xff\xff")],
    "headers that cannot be read": [frame(1, 5, 3, b"\xff\xff\xff\xff\x0f")],
}


def cases() -> dict[str, Callable[[Client, Headers], Outcome]]:
    """Return the exchanges by their names: functions of a new connection and of the headers with a token."""
    return {
        "settings": _settings,
        **{name: partial(_ask, headers=headers) for name, headers in _HEADERS.items()},
        "anonymous": lambda client, token: _ask(client, [], HEALTHZ, waits=True),
        "wrong token": lambda client, token: _ask(
            client, [("authorization", "Bearer nope")], _changed(path=MAPS), waits=True
        ),
        "body that is not read": _open,
        "body shorter than declared": partial(_ask, headers=[*_POST, ("content-length", "10")], data=b"12345"),
        "body longer than declared": partial(_ask, headers=[*_POST, ("content-length", "3")], data=b"12345"),
        "length that is no number": partial(_ask, headers=[*_POST, ("content-length", "a")], data=b"12345"),
        "a header that unfolds": partial(_block, rest=_BOMB),
        "100 empty continuations": partial(_block, continuations=100),
        "5,000 empty continuations": partial(_block, continuations=5000),
        "3 MB of headers": lambda client, token: _ask(client, token, [*HEALTHZ, *[("x", "\x7e" * 16_000)] * 200]),
        **{name: partial(_frames, parts=parts) for name, parts in _BAD_FRAMES.items()},
        "a client that leaves": _watch_of_one_who_leaves,
        "first a ping": partial(_greeted, PREFACE + PING),
        "first HTTP/1.1": partial(_greeted, b"GET / HTTP/1.1\r\n\r\n"),
    }


def observe(url: str, token: str) -> Iterator[tuple[str, Outcome]]:
    """Yield the names of the exchanges with what a server answers."""
    headers = [("authorization", f"Bearer {token}")]
    for name, case in cases().items():
        with Client(url) as client:
            yield name, json.loads(json.dumps(case(client, headers)))


if __name__ == "__main__":
    for name, outcome in observe(*sys.argv[1:]):
        print(json.dumps({"case": name, "answer": outcome}), flush=True)
