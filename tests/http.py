"""Send HTTP requests to a running server, as every test does that needs one."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from understudy import Server

TIMEOUT = 60.0  # seconds that the next bytes of a response may take
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Response(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        """Return the texts of the `Warning` headers, unquoted."""
        return [json.loads(value.removeprefix("299 - ")) for value in self.headers.get_all("Warning") or []]


class Connection:
    """Keep one connection to the server at `url` alive; reopen it once when the server has closed it."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        """Prepare for the server at an address. Its certificate is verified by `context`, without one not at all."""
        netloc = urlsplit(url).netloc
        self._http: http.client.HTTPConnection
        if url.startswith("https:"):
            context = context or ssl._create_unverified_context()
            self._http = http.client.HTTPSConnection(netloc, timeout=TIMEOUT, context=context)
        else:
            self._http = http.client.HTTPConnection(netloc, timeout=TIMEOUT)

    def open(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Send a request and return the response with its body unread, as a watch needs it."""
        try:
            self._http.request(method, path, body, headers or {})
            return self._http.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._http.close()
            self._http.request(method, path, body, headers or {})
            return self._http.getresponse()

    def limit_wait(self, seconds: float) -> None:
        """Let the next read raise TimeoutError after that many seconds without a byte."""
        if self._http.sock:
            self._http.sock.settimeout(max(seconds, 0.001))

    def close(self) -> None:
        self._http.close()


def url_of(server: Server | str) -> str:
    return server if isinstance(server, str) else server.url


def send(
    server: Server | str,
    method: str,
    path: str,
    body: Any = None,
    media: str | None = None,
    *,
    accept: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Send one request, to a server or to its URL, on a connection of its own.

    Bytes are sent as they are, any other body as JSON without spaces. `media` is the body's media type: a merge patch
    for PATCH unless told otherwise, else JSON.
    """
    own: dict[str, str] = {}
    if body is not None:
        own["Content-Type"] = media or (MERGE_PATCH if method == "PATCH" else JSON)
        body = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    if accept is not None:
        own["Accept"] = accept
    connection = Connection(url_of(server))
    try:
        response = connection.open(method, path, body, {**own, **(headers or {})})
        return Response(response.status, response.headers, response.read())
    finally:
        connection.close()


def exchange(
    server: Server | str,
    method: str,
    path: str,
    body: Any = None,
    media: str | None = None,
    *,
    accept: str | None = None,
) -> tuple[int, Any]:
    """Send one request as `send` does and return (status, the body's JSON)."""
    response = send(server, method, path, body, media, accept=accept)
    return response.status, response.json()


@contextmanager
def watch(server: Server | str, path: str, query: str = "", *, accept: str | None = None) -> Iterator[Iterator[Any]]:
    """Open a watch of a collection; the block reads its events as they come, until the server ends the watch."""
    connection = Connection(url_of(server))
    try:
        response = connection.open("GET", f"{path}?watch=1{query}", headers={"Accept": accept} if accept else None)
        assert response.status == 200, response.read()
        yield map(json.loads, response)
        response.close()
    finally:
        connection.close()
