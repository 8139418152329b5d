"""The HTTP client of the replay: one keep-alive connection, and a connection of its own for each watch."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from typing import Any

from tests.http import Connection

KEPT_HEADERS = ("content-type", "warning", "allow", "retry-after")
LINGER = 0.1  # seconds given to an event that should not come


class Client(Connection):
    """Talk to a server under the name and the token of the client that made the recordings."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url)
        self.url, self.token = url, token

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        own = {
            "User-Agent": "recorder/1.0",
            "Accept": "application/json",
            "Authorization": f"Bearer {self.token}",
        }
        return self.open(method, path, body, {**own, **headers})

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, dict[str, Any], Any]:
        """Return (status, the headers that recordings keep, body); the body decoded if it is JSON, else as text."""
        response = self.send(method, path, headers, body)
        return response.status, kept(response), json_or_text(response.read())

    def watch(self, path: str, headers: Mapping[str, str]) -> Watch:
        return Watch(Client(self.url, self.token), path, headers)


class Watch:
    """Hold an open watch; its events wait in the socket until they are collected."""

    def __init__(self, client: Client, path: str, headers: Mapping[str, str]) -> None:
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
