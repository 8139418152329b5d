"""The parts that scripts comparing two API servers share: a client, edits of objects, and differences of answers."""

from __future__ import annotations

import argparse
import copy
import http.client
import json
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

Obj = dict[str, Any]
Parts = tuple[tuple[str, tuple[Any, ...]], ...]  # (path of a field, its values)
MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
UNANSWERED = 0  # a real server drops the connection when a handler panics, and takes its time now and then
PATIENCE = 15  # seconds that an answer may take
IDLE_SECONDS = 30.0  # after which a connection is not used again; servers close idle ones, kube-apiserver after 90 s
MAX_UNANSWERED = 3  # requests that a real server may leave without an answer: more of them, and little was compared


class Answer(NamedTuple):
    """An answer with its status, headers and body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Return the values of a header, given in lower case."""
        return [value for header, value in self.headers if header.lower() == name]


class UnansweredError(Exception):
    """The real server did not answer, so nothing could be compared."""


@dataclass
class Server:
    """An API server, asked over a connection that each thread keeps.

    `ca` is the file with which its certificate is verified; without one it is not.
    """

    url: str
    token: str = ""
    ca: str = ""
    _kept: dict[int, tuple[http.client.HTTPConnection, float]] = field(default_factory=dict)  # by thread; since when

    def exchange(self, method: str, path: str, headers: Obj | None = None, body: bytes | None = None) -> Answer:
        """Send one request, never twice, and return the answer; its status is UNANSWERED if there was none."""
        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": "differential/1", **(headers or {})}
        try:
            connection = self._connection()
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        except (http.client.HTTPException, OSError) as why:
            self.close()
            return Answer(UNANSWERED, [], repr(why).encode())

    def _connection(self) -> http.client.HTTPConnection:
        """Return the thread's connection, a new one if it was not used for a while."""
        now, thread = time.monotonic(), threading.get_ident()
        connection, used = self._kept.get(thread, (None, now))
        if connection is None or now - used > IDLE_SECONDS:
            self.close()
            connection = self.connect()
        self._kept[thread] = (connection, now)
        return connection

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection."""
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme != "https":
            return http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        verified = ssl.create_default_context(cafile=self.ca) if self.ca else ssl._create_unverified_context()
        return http.client.HTTPSConnection(parts.netloc, timeout=PATIENCE, context=verified)

    def close(self) -> None:
        """Close the thread's connection."""
        if kept := self._kept.pop(threading.get_ident(), None):
            kept[0].close()

    def call(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Obj]:
        """Send and receive JSON; an answer in plain text is returned as the message of an object."""
        data = None if body is None else json.dumps(body).encode()
        answer = self.exchange(method, path, {"Content-Type": media}, data)
        if answer.body.startswith(b"{"):
            return answer.status, json.loads(answer.body)
        return answer.status, {"message": answer.body.decode()} if answer.body else {}

    def must(self, method: str, path: str, body: Any = None) -> Obj:
        """Send and receive JSON. Raises SystemExit, with one line, if the server does not do it."""
        status, answer = self.call(method, path, body)
        if status not in (200, 201):
            raise SystemExit(f"{self.url}: {method} {path}: {status or 'no answer'} {answer.get('message', answer)}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection, _used in self._kept.values():
            connection.close()
        self._kept.clear()


@dataclass
class Tally:
    """The number of requests that two servers answer alike, and of others; what differs is printed."""

    agree: int = 0
    differ: int = 0
    unanswered: int = 0  # by the left server

    def compare(self, request: str, left: Any, right: Any) -> None:
        """Compare what two servers answer to a request."""
        lines = list(differences(left, right, ""))
        self.count(lines)
        if lines:
            print_difference(request, lines)

    def count(self, lines: Sequence[str]) -> None:
        """Count a request whose answers differ by some lines, or by none."""
        self.differ += bool(lines)
        self.agree += not lines

    def lacks_answer(self, answer: Answer) -> bool:
        """Report, and count, that the left server has not answered."""
        self.unanswered += answer.status == UNANSWERED
        return answer.status == UNANSWERED

    @property
    def total(self) -> int:
        return self.agree + self.differ + self.unanswered

    @property
    def exit_status(self) -> int:
        """1 if anything differs, or if little was compared."""
        return 0 if self.agree and not self.differ and self.unanswered <= MAX_UNANSWERED else 1

    def __str__(self) -> str:
        return f"{self.agree} agree, {self.differ} differ, {self.unanswered} unanswered"


def print_difference(request: str, lines: Iterable[str]) -> None:
    """Print a request and how its answers differ."""
    print(f"--- {request}")
    for line in lines:
        print(f"    {line[:600]}")


def end_namespace(server: Server, name: str) -> None:
    """Delete a namespace, whether or not a controller runs that would empty it."""
    path = f"/api/v1/namespaces/{name}"
    server.call("DELETE", path)
    server.call("PUT", f"{path}/finalize", {"metadata": {"name": name}, "spec": {"finalizers": []}})


def add_pair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that compares two servers."""
    parser.add_argument("left", help="URL of a real server")
    parser.add_argument("right", help="URL of the server to compare")
    parser.add_argument("--token", default="", help="bearer token of a member of system:masters, for both")


def add_saving_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that compares exchanges and can save them."""
    add_pair_arguments(parser)
    parser.add_argument("--save", metavar="FILE", help="write the exchanges of the left server there")


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that sends random requests to two servers."""
    add_pair_arguments(parser)
    parser.add_argument("--seed", type=int, default=0, help="of everything random")


def require_servers(*servers: Server) -> None:
    """Check that the servers answer and emulate one release. Raises SystemExit, with one line, if they do not."""
    releases = []
    for server in servers:
        version = server.must("GET", "/version")
        releases.append(version.get("emulationMinor") or version.get("minor"))
    if None in releases or len(set(releases)) != 1:
        raise SystemExit(f"the servers have different releases: {releases}")


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
    """Yield a line for each place where two values differ: an absent field is not null, 1 is neither 1.0 nor true."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            if key not in left or key not in right:
                texts = [json.dumps(value[key]) if key in value else "nothing" for value in (left, right)]
                yield f"{path}.{key}: {texts[0]} and {texts[1]}"
            else:
                yield from differences(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from differences(a, b, f"{path}[{index}]")
    elif (one := json.dumps(left)) != (other := json.dumps(right)):
        yield f"{path}: {one} and {other}"
