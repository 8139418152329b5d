"""Requests and responses, as they pass between the HTTP server and the filters and handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import field
from math import inf
from time import monotonic
from typing import Protocol, TypeVar

from understudy.apiserver.authentication.certificates.user_headers import STANDARD, UserHeaders
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.permissions.audit.event import RequestEvents
from understudy.apiserver.permissions.audit.latencies import Latencies
from understudy.apiserver.serving.monitoring import Monitored
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, dataclass
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock

JSON = "application/json"
_IMPERSONATION = "impersonate-"
NO_ANSWER = -1  # bytes of a body of which not even the head is sent
T = TypeVar("T")


class BodyAwaitedError(Exception):
    """The body is asked for, and has not come yet: the request is answered from the beginning once it has."""


MakeError = Callable[[], Exception]


class Beside(Protocol):
    """Calls a function that may take long for a request, in a thread beside the event loop."""

    async def __call__(self, request: Request, function: Callable[[], T], /) -> T:
        """Return the result of the function, which may be called twice. Raises as it does."""


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
    deadline          when the answer is given up, in seconds of `time.monotonic`; infinite for long-running requests
    write_deadline    when the write of an object is given up, whatever time its client gives it
    beside            does what may take long while the request is answered on the event loop; None otherwise
    is_large          whether its body may take long to read
    serves_cbor       whether the server reads and writes CBOR; set once it does
    monitored         what it is counted by, None if it is not; set when it has a route
    waited            seconds that a queue and webhooks took, which are not the server's own; those of webhooks that
                      validate, which are asked at once, are `validated`
    is_internal       whether the server itself sends it, which is not in the permission report
    source            returns the address from which it was sent
    is_last           whether the client is to send no more on the connection, if that is one of HTTP/2
    audit             the events of the audit log, None if it is not logged; set after authentication
    latencies         where the time of the request goes, None without an audit log; set by authentication
    leave             gives back the place of the request, None if it has none; set where these are limited
    writes            entries as the request writes them; None if nobody wants to know
    refused_by        the name of what has refused the request, for people; see `StatusError`
    refusal           the message of the Status that is answered, if that is an error
    user_headers      those that name users; set by authentication
    watch_list_complete
                      is called when a watch has sent what was stored where it begins, if it is to say so
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
    leave: Callable[[], None] | None = field(default=None, init=False)
    clock: Clock = SYSTEM_CLOCK
    deadline: float = inf
    write_deadline: float = inf
    beside: Beside | None = None
    is_large: bool = False
    serves_cbor: bool = False
    monitored: Monitored | None = None
    waited: float = 0.0
    validated: float = 0.0
    is_internal: bool = False
    source: Callable[[], str] = lambda: "127.0.0.1"
    is_last: bool = False
    audit: RequestEvents | None = None
    latencies: Latencies | None = None
    writes: list[Entry] | None = None
    refused_by: str = ""
    refusal: str = ""
    user_headers: UserHeaders = STANDARD
    watch_list_complete: Callable[[], None] = lambda: None

    def headers_to_pass_on(self) -> Iterator[tuple[str, str]]:
        """Yield the headers that another server may see: all but credentials and those that name a user."""
        for name, value in self.headers.items():
            if name not in self.user_headers and not name.lower().startswith(_IMPERSONATION):
                yield name, value

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

    async def read(self, read: Callable[[], T]) -> T:
        """Call a function that reads the body, a large one beside the event loop, and return its result.

        Raises as it does. It may be called twice, and others may write meanwhile: nothing else is looked at before.
        """
        return await self.make(read) if self.is_large else read()

    async def make(self, make: Callable[[], T]) -> T:
        """Call a function that may take long beside the event loop, and return its result.

        Raises as it does. It may be called twice, and others may write meanwhile.
        """
        return make() if self.beside is None else await self.beside(self, make)

    def track(self, layer: str, seconds: float) -> None:
        """Note the seconds that a webhook took: "mutating-webhook", "validating-webhook"."""
        if layer == "mutating-webhook":
            self.waited += seconds
        else:
            self.validated = max(self.validated, seconds)
        if self.audit is not None:
            self.audit.latencies.track(layer, seconds)

    def seconds_left(self) -> float:
        """Return the seconds that are left for the answer, 0 or less if they are over; in any thread."""
        return min(self.deadline, self.write_deadline) - monotonic()

    @property
    def is_upgrade(self) -> bool:
        """Report whether another protocol is asked for (upstream: `IsUpgradeRequest`)."""
        return any(name.lower() == "connection" and "upgrade" in text.lower() for name, text in self.headers.items())

    def check_body(self) -> None:
        """Refuse a request whose body cannot be read, where the real server reads it. Raises 413 and 500."""
        _ = self.body


@dataclass(frozen=True, slots=True)
class Delivery:
    """The way an answer is sent that a fault slows down or cuts off.

    bytes_per_second  of head and body
    body_bytes        bytes of the body after which the connection is reset: -1 if not even the head is sent, None if
                      all is sent
    """

    bytes_per_second: float = inf
    body_bytes: int | None = None


class Response:
    """An answer.

    parts         the body, in parts if it is large
    compressible  whether a large body may be compressed if the client accepts that
    delivery      None for an answer that is sent at once
    """

    __slots__ = ("compressible", "content_type", "delivery", "headers", "parts", "status")

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
        self.delivery: Delivery | None = None

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class Load(NamedTuple):
    """The preparation of the next frame of a watch.

    function  is to be called in a thread. It raises StatusError
    request   that with which the watch began if the function computes, which others may have to do before; None if it
              waits for others, in a thread of its own
    """

    function: Callable[[], None]
    request: Request | None = None


class WatchProgress(NamedTuple):
    """The place that a watch has come to.

    request   with which it began
    begun     when it did, in seconds of `Clock.monotonic`
    revision  of the last event that was taken from it
    waiting   how many events wait until the client has read those before
    """

    request: Request
    begun: float
    revision: int
    waiting: int


class WatchSource(Protocol):
    """Yields the encoded events of one watch. `wake` is called when there may be more to take."""

    wake: Callable[[], None]
    ended: bool

    @property
    def sent(self) -> int:
        """Return the bytes of the events that were taken."""

    @property
    def progress(self) -> WatchProgress:
        """Return the place that the watch has come to."""

    @property
    def due(self) -> float:
        """Return the next time, in seconds of `Clock.monotonic`, at which a frame may be due without a write."""

    @property
    def must_load(self) -> bool:
        """Report whether the next frame can only be taken after a load, and none is under way."""

    def take(self) -> list[bytes]:
        """Return the frames that have not been taken yet; none once the watch has ended."""

    def begin_load(self) -> Load:
        """Return the preparation of the next frame."""

    def fail(self, error: StatusError) -> None:
        """End the watch with an error as its last event."""

    def close(self) -> None:
        """End the watch."""


@dataclass(slots=True)
class WatchResponse:
    """A watch: the edge sends what `source` yields until it ends.

    compressible  whether clients that accept gzip get it gzipped, as streaming lists are since 1.37
    delivery      None for a watch whose events are sent at once
    on_end        is called when it has ended
    """

    source: WatchSource
    content_type: str = JSON
    compressible: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)
    delivery: Delivery | None = None
    on_end: Callable[[], None] = lambda: None

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call a function once when the watch has ended, behind those that are called already."""
        waiting = [self.on_end, call]

        def call_all() -> None:
            while waiting:
                waiting.pop(0)()

        self.on_end = call_all
