"""The parts that scripts comparing two API servers share: a client, edits of objects, and differences of answers."""

from __future__ import annotations

import copy
import http.client
import json
import random
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Obj = dict[str, Any]
Parts = tuple[tuple[str, tuple[Any, ...]], ...]  # (path of a field, its values)
MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
CRASHED = 0  # a real server drops the connection when a handler panics
PATIENCE = 15  # seconds that an answer may take


class Answer(NamedTuple):
    """An answer with its status, headers and body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Return the values of a header, given in lower case."""
        return [value for header, value in self.headers if header.lower() == name]


@dataclass
class Server:
    """An API server, asked over a connection that each thread keeps.

    `ca` is the file with which its certificate is verified; without one it is not.
    """

    url: str
    token: str = ""
    ca: str = ""
    _own: threading.local = field(default_factory=threading.local)

    def exchange(self, method: str, path: str, headers: Obj | None = None, body: bytes | None = None) -> Answer:
        """Send one request and return the answer; its status is CRASHED if there was none."""
        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": "differential/1", **(headers or {})}
        for fresh in (False, True):
            connection = self._connection(fresh)
            try:
                connection.request(method, path, body, sent)
                answer = connection.getresponse()
                return Answer(answer.status, answer.getheaders(), answer.read())
            except (http.client.HTTPException, ConnectionError):
                continue  # a connection that was idle for too long; or nobody answers, then the second try says so
            except TimeoutError:
                break
        self._connection(True)
        return Answer(CRASHED, [], b"")

    def _connection(self, fresh: bool) -> http.client.HTTPConnection:
        if fresh or not hasattr(self._own, "connection"):
            if hasattr(self._own, "connection"):
                self._own.connection.close()
            parts = urllib.parse.urlsplit(self.url)
            if parts.scheme == "https":
                verified = ssl.create_default_context(cafile=self.ca) if self.ca else ssl._create_unverified_context()
                self._own.connection = http.client.HTTPSConnection(parts.netloc, timeout=PATIENCE, context=verified)
            else:
                self._own.connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        connection: http.client.HTTPConnection = self._own.connection
        return connection

    def call(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Obj]:
        """Send and receive JSON; an answer in plain text is returned as the message of an object."""
        data = None if body is None else json.dumps(body).encode()
        answer = self.exchange(method, path, {"Content-Type": media}, data)
        if answer.body.startswith(b"{"):
            return answer.status, json.loads(answer.body)
        return answer.status, {"message": answer.body.decode()} if answer.body else {}


def set_at(obj: Obj, path: str, value: Any) -> None:
    """Set the field at a dotted path, with the objects above it."""
    *parents, last = path.split(".")
    for name in parents:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    obj[last] = copy.deepcopy(value)


def sample_parts(rng: random.Random, parts: Parts, count: int) -> list[tuple[str, Any]]:
    """Return random values for `count` of the fields."""
    return [(path, rng.choice(values)) for path, values in rng.sample(parts, min(count, len(parts)))]


def differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """Yield a line for each place where two values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from differences(left.get(key), right.get(key), f"{path}.{key}")
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from differences(a, b, f"{path}[{index}]")
    elif left != right:
        yield f"{path}: {json.dumps(left)} and {json.dumps(right)}"
