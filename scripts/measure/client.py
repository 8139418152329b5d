"""A client that measures: it writes the next request as soon as an answer is complete.

It knows just enough HTTP/1.1 for that, so that it costs little beside the servers that are measured.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.Protocol)
CONNECTIONS = 4
NAMESPACE = f"bench-{os.getpid()}"
CORE = f"/api/v1/namespaces/{NAMESPACE}"


@dataclass(frozen=True)
class Encoding:
    """An encoding of objects: its media type, and bytes that each event of a watch contains exactly once."""

    media: str
    mark: bytes


JSON = Encoding("application/json", b"}\n")
PROTOBUF = Encoding("application/vnd.kubernetes.protobuf", b"k8s\0")


@dataclass
class Target:
    """A server to measure; `head` are the header lines that each request to it carries."""

    name: str
    url: str
    head: str = ""
    tls: ssl.SSLContext | None = None

    def request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = JSON.media
    ) -> bytes:
        """Return the bytes of a request."""
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        host = urllib.parse.urlsplit(self.url).netloc
        lines = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n{self.head}"
        if body is not None:
            lines += f"Content-Type: {kind}\r\nContent-Length: {len(sent)}\r\n"
        return lines.encode() + b"\r\n" + sent

    async def connect(self, protocol: Callable[[], P]) -> P:
        """Open a connection with a protocol, and return the protocol."""
        parts = urllib.parse.urlsplit(self.url)
        port = parts.port or (443 if self.tls else 80)
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(protocol, str(parts.hostname), port, ssl=self.tls))[1]

    async def exchange(self, *request: Any) -> bytes:
        """Send one request on a connection of its own, and return the answer's body.

        Exits for any status but 200 and 201.
        """
        pump = await self.connect(lambda: Pump([self.request(*request)]))
        await pump.done
        pump.transport.close()
        if pump.failed:
            raise SystemExit(f"{self.name}: {request[0]} {request[1]}: {pump.answer[:2000].decode()}")
        return pump.body


class Pump(asyncio.Protocol):
    """Sends requests, each as soon as the one before is answered, until there are none left or the time is `until`."""

    def __init__(self, requests: Any, until: float = float("inf")) -> None:
        self._requests: Iterator[bytes] = iter(requests)
        self._until = until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.count = self.failed = 0
        self.took: list[float] = []
        self.answer = self.body = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the server closed the connection"))

    def _next(self) -> None:
        request = next(self._requests, None) if time.perf_counter() < self._until else None
        if request is None:
            self.done.set_result(None)
            return
        self._data, self._length, self._at = b"", -1, 0
        self._sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        if self._length < 0:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._data[:end].lower()
            length = head.find(b"content-length:")
            self._at = end + 4
            self._length = self._at + int(head[length + 15 :].split(b"\r\n", 1)[0]) if length >= 0 else 0
        if self._length:
            if len(self._data) < self._length:
                return
        elif not self._data.endswith(b"\r\n0\r\n\r\n"):
            return
        self.took.append(time.perf_counter() - self._sent)
        self.count += 1
        if not self._data.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            self.failed += 1
        self.answer = self._data
        self.body = self._data[self._at :] if self._length else b"".join(_chunks(self._data, self._at))
        self._next()


def _chunks(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the chunks of a chunked body that begins at an offset."""
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if not size:
            return
        yield data[end + 2 : end + 2 + size]
        at = end + 4 + size


class Watcher(asyncio.Protocol):
    """Counts the events of a watch; `opened` is done once the answer has begun."""

    def __init__(self, request: bytes, mark: bytes, arrived: Callable[[], None]) -> None:
        self._request, self._mark, self._arrived, self._last = request, mark, arrived, b""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(None)
        for _ in range((self._last + data).count(self._mark)):
            self._arrived()
        self._last = data[1 - len(self._mark) :]


@dataclass
class Workload:
    """The length of a round, the paths of the measured resources, numbers for new names, and connections."""

    seconds: float
    api: str
    names: Iterator[int] = field(default_factory=itertools.count)
    connections: int = CONNECTIONS

    @property
    def claims(self) -> str:
        """Return the path of the claims."""
        return f"/apis/resource.k8s.io/{self.api}/namespaces/{NAMESPACE}/resourceclaims"

    @property
    def watch(self) -> str:
        """Return the path of a watch of the config maps."""
        return f"{CORE}/configmaps?watch=true"


async def requests_per_second(target: Target, work: Workload, requests: Callable[[], Iterator[bytes]]) -> float:
    """Send requests over all connections for one round, and return how many were answered per second."""
    start = time.perf_counter()
    pumps = [await target.connect(lambda: Pump(requests(), start + work.seconds)) for _ in range(work.connections)]
    await asyncio.gather(*(pump.done for pump in pumps))
    took = time.perf_counter() - start
    for pump in pumps:
        pump.transport.close()
        if pump.failed:
            raise SystemExit(f"{target.name}: {pump.failed} requests failed, the last answer: {pump.answer[:500]!r}")
    return sum(pump.count for pump in pumps) / took


async def repeat(target: Target, work: Workload, path: str, form: Encoding = JSON) -> float:
    """Read a path again and again."""
    request = target.request("GET", path, accept=form.media)
    return await requests_per_second(target, work, lambda: itertools.repeat(request))


async def post_each(
    target: Target, work: Workload, path: str, body: Callable[[str], Any], form: Encoding = JSON
) -> float:
    """Create objects at a path.

    body  returns the object of a name
    """

    def requests() -> Iterator[bytes]:
        for number in work.names:
            yield target.request("POST", path, body(f"made-{number}"), form.media, form.media)

    return await requests_per_second(target, work, requests)


async def patch_each(target: Target, work: Workload, path: str, body: Callable[[int], Any], kind: str) -> float:
    """Patch objects again and again, each connection one of its own.

    path  of the objects, up to the number at the end of their names
    body  returns the patch with a number
    kind  media type of the patches
    """
    own = itertools.count()

    def requests() -> Iterator[bytes]:
        patched = f"{path}{next(own)}"
        for number in work.names:
            yield target.request("PATCH", patched, body(number), kind)

    return await requests_per_second(target, work, requests)


async def send(target: Target, requests: Iterable[bytes]) -> None:
    """Send requests over one connection. Exits if one fails."""
    pump = await target.connect(lambda: Pump(requests))
    await pump.done
    pump.transport.close()
    if pump.failed:
        raise SystemExit(f"{target.name}: {pump.failed} requests failed, the last answer: {pump.answer[:500]!r}")


async def create_namespace(target: Target) -> None:
    """Create the namespace of what is measured."""
    await target.exchange("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": NAMESPACE}})
