"""Send bytes to a server as they are, and read the answers, however odd the request."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from contextlib import suppress
from typing import Any, TypedDict
from urllib.parse import urlsplit

TIMEOUT = 20.0  # seconds that what is expected may take
PAUSE = 0.01  # seconds between the parts of a request, and that nothing comes on a connection that stays open
# Headers that every answer has, or that tell of the moment.
PASSING = {"date", "audit-id", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid", "content-length"}
UNIQUE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")

Part = str | tuple[str, int]  # Latin-1, or one that is repeated


class Answer(TypedDict):
    status: str  # the line
    headers: list[str]  # sorted, without those that tell of the moment
    body: Any  # decoded JSON of a Status, only the kind of other objects, else text


def encode(part: Part) -> bytes:
    """Return the bytes of a part of a request."""
    return part.encode("latin-1") if isinstance(part, str) else part[0].encode("latin-1") * part[1]


def converse(
    url: str, parts: list[Part], expected: int | None = None, closes: bool = False, silence: float = 1.0
) -> tuple[list[Answer], bool]:
    """Send a request in parts; return the answers, and whether the connection is closed behind them.

    `expected` is the number of answers, if it is known, and `closes` says whether the connection closes then. Else all
    are read until nothing comes for some seconds.
    """
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname, address.port), timeout=TIMEOUT)
    if address.scheme == "https":
        connection = ssl._create_unverified_context().wrap_socket(connection)
    bodiless = encode(parts[0]).startswith(b"HEAD")
    with connection:
        data = b""
        with suppress(OSError):  # the server may refuse before it has read everything
            for number, part in enumerate(parts):
                if number:
                    time.sleep(PAUSE)
                connection.sendall(encode(part))
        while True:
            answers, complete = read_answers(data, closed=False, bodiless=bodiless)
            ends = complete and not closes and expected is not None and len(answers) >= expected
            connection.settimeout(PAUSE if ends else silence if expected is None else TIMEOUT)
            try:
                more = connection.recv(1 << 20)
            except TimeoutError:
                return answers, False
            except OSError:
                more = b""
            if not more:
                return read_answers(data, closed=True, bodiless=bodiless)[0], True
            data += more


def read_answers(data: bytes, closed: bool, bodiless: bool) -> tuple[list[Answer], bool]:
    """Return the answers in data, and whether the last one is complete. Those to HEAD have no bodies."""
    answers: list[Answer] = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        if not end:
            return answers, False
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if bodiless or " 100 " in status:
            body, complete = b"", True
        elif "content-length" in headers:
            size = int(headers["content-length"])
            body, data, complete = data[:size], data[size:], len(data) >= size
        elif headers.get("transfer-encoding") == "chunked":
            chunks, end, data = data.partition(b"0\r\n\r\n")
            body, complete = _joined(chunks), bool(end)
        else:
            body, data, complete = data, b"", closed
        if not complete:
            return answers, False
        shown = sorted(f"{name}: {value}" for name, value in headers.items() if name not in PASSING)
        answers.append({"status": status, "headers": shown, "body": _readable(body, headers.get("content-type", ""))})
    return answers, True


def _joined(chunks: bytes) -> bytes:
    """Return the data of chunks, which are complete."""
    data = b""
    while chunks:
        size, _, chunks = chunks.partition(b"\r\n")
        data += chunks[: int(size, 16)]
        chunks = chunks[int(size, 16) + 2 :]
    return data


def _readable(body: bytes, content_type: str) -> Any:
    if content_type != "application/json" or not body:
        return UNIQUE.sub("<uid>", body.decode("latin-1"))
    value = json.loads(body)
    return value if not isinstance(value, dict) or value.get("kind") == "Status" else value.get("kind")
