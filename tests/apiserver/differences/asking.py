"""How the tests here ask a server over HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from understudy import Server

PATIENCE = 60  # seconds that an answer may take


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    raw: bytes


def send(
    server: Server, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    try:
        connection.request(method, target, body, {**(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def ask(server: Server, method: str, target: str, body: Any = None, accept: str = "application/json") -> Any:
    """(status, headers, the answer's object)."""
    sent = None if body is None else json.dumps(body).encode()
    answer = send(server, method, target, sent, {"Accept": accept, "Content-Type": "application/json"})
    return answer.status, answer.headers, json.loads(answer.raw)
