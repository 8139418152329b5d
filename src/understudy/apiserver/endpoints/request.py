"""Requests and responses, as they pass between the HTTP server and the filters and handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.machinery.auth.users import User
from understudy.machinery.options import Query
from understudy.machinery.releases.version import Version
from understudy.machinery.util.clock import Clock, SystemClock

JSON = "application/json"
SYSTEM_CLOCK = SystemClock()


class BodyAwaitedError(Exception):
    """The body is asked for, and has not come yet: the request is answered from the beginning once it has."""


MakeError = Callable[[], Exception]


@dataclass(slots=True)
class Request:
    """A request: the server has received it, and filters complete it.

    headers           case-insensitive mapping
    content           the body, or a function that makes the error for everyone who asks for it: an error that is kept
                      would keep the request, by the frames that raised it
    receive           waits for a body that has not come yet, whose `content` is BodyAwaitedError
    certificates      those that the client has shown, in DER, its own first
    release           release that the server emulates
    warnings          texts of Warning headers of the answer
    response_headers  other headers that filters add to the answer, whatever it is
    user              the client; set by authentication
    info              what is asked for; set by the first filter
    clock             clock of the server
    deadline          when the answer is given up, in seconds of `Clock.monotonic`; infinite for long-running requests
    write_deadline    when the write of an object is given up, whatever time its client gives it
    is_internal       whether the server itself sends it, which is not in the permission report
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes | MakeError
    query: Query
    release: Version
    certificates: tuple[bytes, ...] = ()
    receive: Callable[[], Awaitable[bytes | MakeError]] | None = None
    warnings: list[str] = field(default_factory=list)
    response_headers: tuple[tuple[str, str], ...] = ()
    user: User = field(init=False)
    info: RequestInfo = field(init=False)
    clock: Clock = SYSTEM_CLOCK
    deadline: float = inf
    write_deadline: float = inf
    is_internal: bool = False

    async def receive_body(self) -> None:
        """Wait for a body that has not come yet."""
        if self.receive is not None:
            self.content = await self.receive()

    @property
    def body(self) -> bytes:
        """Return the body. Raises 413 if it is too large, 500 if it breaks the rules of HTTP, or BodyAwaitedError."""
        if isinstance(self.content, bytes):
            return self.content
        raise self.content()

    def seconds_left(self) -> float:
        """Return the seconds that are left for the answer, 0 or less if they are over; in any thread."""
        return min(self.deadline, self.write_deadline) - self.clock.monotonic()

    def check_body(self) -> None:
        """Refuse a request whose body cannot be read, where the real server reads it. Raises 413 and 500."""
        _ = self.body


class Response:
    """An answer.

    parts         the body, in parts if it is large
    compressible  whether a large body may be compressed if the client accepts that
    """

    __slots__ = ("compressible", "content_type", "headers", "parts", "status")

    def __init__(
        self,
        status: int,
        body: bytes | list[bytes] = b"",
        content_type: str = JSON,
        headers: list[tuple[str, str]] | None = None,
        compressible: bool = True,
    ) -> None:
        self.status = status
        self.parts = [body] if isinstance(body, bytes) else body
        self.content_type = content_type
        self.headers = [] if headers is None else headers
        self.compressible = compressible

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class WatchSource(Protocol):
    """Yields the encoded events of one watch. `wake` is called when there may be more to take."""

    wake: Callable[[], None]
    ended: bool

    @property
    def due(self) -> float:
        """Return the next time, in seconds of `Clock.monotonic`, at which a frame may be due without a write."""

    @property
    def must_load(self) -> bool:
        """Report whether the next frame can only be taken after a load, and none is under way."""

    def take(self) -> list[bytes]:
        """Return the frames that have not been taken yet; none once the watch has ended."""

    def begin_load(self) -> Callable[[], None]:
        """Return a function that prepares the next frame, to be called in a thread. It raises StatusError."""

    def close(self) -> None:
        """End the watch."""


@dataclass(slots=True)
class WatchResponse:
    """A watch: the edge sends what `source` yields until it ends.

    compressible  whether clients that accept gzip get it gzipped, as streaming lists are since 1.37
    """

    source: WatchSource
    content_type: str = JSON
    compressible: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)
