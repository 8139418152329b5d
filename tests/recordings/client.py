"""The replay's HTTP client: one keep-alive connection, and watches on connections of their own.

Blocking and thin, so that a replay measures the server and not the client. Knows nothing of recordings.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

KEPT_HEADERS = ("content-type", "warning", "allow", "retry-after")
LINGER = 0.1  # seconds given to an event that should not come


class Connection:
    """A keep-alive connection that reopens itself once when the server has closed it."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self._address = urllib.parse.urlsplit(url).netloc
        self._http = http.client.HTTPConnection(self._address, timeout=30)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        sent = {
            "User-Agent": "recorder/1.0",
            "Accept": "application/json",
            "Authorization": f"Bearer {self.token}",
            **headers,
        }
        try:
            self._http.request(method, path, body=body, headers=sent)
            return self._http.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._http.close()
            self._http.request(method, path, body=body, headers=sent)
            return self._http.getresponse()

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, dict[str, Any], Any]:
        """(status, the headers that count, body); the body decoded if it is JSON, else as text."""
        response = self.send(method, path, headers, body)
        return response.status, kept(response), json_or_text(response.read())

    def watch(self, path: str, headers: Mapping[str, str]) -> Watch:
        return Watch(Connection(self.url, self.token), path, headers)

    def close(self) -> None:
        self._http.close()

    def wait_at_most(self, seconds: float) -> None:
        if self._http.sock:
            self._http.sock.settimeout(max(seconds, 0.001))


class Watch:
    """An open watch; its events wait in the socket until they are collected."""

    def __init__(self, connection: Connection, path: str, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._response = connection.send("GET", path, headers)
        self.status, self.headers = self._response.status, kept(self._response)
        self.error = None if self.status == 200 else json_or_text(self._response.read())

    def collect(self, expected: int, seconds: float, count: int | None) -> list[Any]:
        """Events until `count` of them; without a count, the `expected` ones and what follows them at once."""
        events: list[Any] = []
        end = time.monotonic() + seconds
        try:
            while self.error is None and (count is None or len(events) < count):
                self._connection.wait_at_most(LINGER if len(events) >= expected else end - time.monotonic())
                line = self._response.readline()
                if not line:
                    break
                if line.strip():
                    events.append(json_or_text(line))
        except (TimeoutError, http.client.HTTPException, ConnectionError):
            pass  # nothing more came
        self._response.close()
        self._connection.close()
        return events


def kept(response: http.client.HTTPResponse) -> dict[str, Any]:
    """The headers that recordings hold: `warning` as a list, the others joined."""
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
