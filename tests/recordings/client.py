"""The HTTP client of the replay: one keep-alive connection, and a connection of its own for each watch."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from email.message import Message
from typing import Any

from tests.http import Connection

Headers = Mapping[str, str | list[str] | None]
KEPT_HEADERS = ("content-type", "warning", "allow", "retry-after")
LINGER = 0.1  # seconds given to an event that should not come


class Client(Connection):
    """Talk to a server under the name and the token of the client that made the recordings."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(url, context)
        self.url, self.token, self.context = url, token, context

    def send(self, method: str, path: str, headers: Headers, body: bytes | None = None) -> http.client.HTTPResponse:
        """Send a request; a header of None is left out, one with a list is repeated."""
        sent: dict[str, Any] = {"User-Agent": "recorder/1.0", "Accept": "application/json"}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        return self.open(method, path, body, repeated({**sent, **headers}))

    def exchange(
        self, method: str, path: str, headers: Headers, body: bytes | None = None
    ) -> tuple[int, dict[str, Any], Any]:
        """Return (status, the headers that recordings keep, body); the body decoded if it is JSON, else as text."""
        response = self.send(method, path, headers, body)
        return response.status, kept(response), json_or_text(response.read())

    def reconnect(self, url: str) -> None:
        """Go on with the server at another address."""
        self.close()
        super().__init__(url, self.context)
        self.url = url

    def watch(self, path: str, headers: Headers) -> Watch:
        """Open a watch on a connection of its own."""
        return Watch(Client(self.url, self.token, self.context), path, headers)


class Watch:
    """Hold an open watch; its events wait in the socket until they are collected."""

    def __init__(self, client: Client, path: str, headers: Headers) -> None:
        self._client = client
        self._response = client.send("GET", path, headers)
        self.status, self.headers = self._response.status, kept(self._response)
        self.error = None if self.status == 200 else json_or_text(self._response.read())

    def collect(self, expected: int, seconds: float, count: int | None) -> list[Any]:
        """Return events until there are `count`; without a count, the `expected` ones and those that follow at once."""
        events: list[Any] = []
        end = time.monotonic() + seconds
        try:
            while self.error is None and (count is None or len(events) < count):
                self._client.limit_wait(LINGER if len(events) >= expected else end - time.monotonic())
                line = self._response.readline()
                if not line:
                    break
                if line.strip():
                    events.append(json_or_text(line))
        except (TimeoutError, http.client.HTTPException, ConnectionError):
            pass  # nothing more came
        self._response.close()
        self._client.close()
        return events


def repeated(headers: Headers) -> Any:
    """Return headers as they are sent: without those of None, and those of a list once for each value."""
    out = Message()
    for name, values in headers.items():
        for value in values if isinstance(values, list) else [] if values is None else [values]:
            out.add_header(name, value)
    return out


def kept(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the headers that recordings hold: `warning` as a list, the others joined."""
    out: dict[str, Any] = {}
    for name in KEPT_HEADERS:
        if values := response.headers.get_all(name):
            out[name] = values if name == "warning" else ", ".join(values)
    return out


def json_or_text(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
