"""Keeps the last requests of a server and what became of them, for tests and for the page at /ui/.

    create   /api/v1/namespaces/default/pods   ann                403  pods is forbidden: User "ann" cannot create …
    list     /api/v1/nodes?labelSelector=a     system:admin       200

Noting a request keeps what is there anyway; text is made when it is asked for.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from itertools import takewhile

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.server.filters.request_log.requests import LoggedRequest
from understudy.apiserver.server.pages.open_pages import PREFIX as UI
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.auth.users import User
from understudy.machinery.options import Query
from understudy.machinery.types import NamedTuple

KEPT = 10_000  # requests
KEPT_OF_COMPONENTS = 2_000  # requests
KEPT_BYTES = 32 << 20  # of their paths and bodies
TESTS_AGENT = "understudy"  # the user agent of what tests ask by methods of `Server`


class Change(NamedTuple):
    """The object that a request has written, by its key, with the revisions of the first and the last write."""

    key: str
    first: int
    last: int


class Note(NamedTuple):
    """A request that was answered.

    number        counts the requests that are noted
    time          of the answer, in seconds since 1970, on the clock of the server
    user          None for a request that was not authenticated
    content_type  of the body
    refusal       the message of an answer that is a Status
    error         the answer's body, if it is another error
    change        None for a request that has written nothing, or several objects
    """

    number: int
    time: float
    info: RequestInfo
    query: Query
    user: User | None
    agent: str
    content_type: str
    body: bytes
    status: int
    refusal: str
    error: bytes
    refused_by: str
    change: Change | None
    seconds: float

    @property
    def size(self) -> int:
        """Return about the bytes that it takes beside a few hundred: those of texts that a client may make long."""
        return (
            len(self.body)
            + len(self.refusal)
            + len(self.error)
            + len(self.info.path)
            + len(self.query.text)
            + len(self.agent)
        )

    def logged(self) -> LoggedRequest:
        """Return the request as tests see it."""
        info = self.info
        return LoggedRequest(
            verb=info.verb,
            path=info.path,
            query=dict(self.query),
            group=info.group,
            version=info.version,
            resource=info.resource,
            subresource=info.subresource,
            namespace=info.namespace,
            name=info.name,
            user=self.user.name if self.user else "",
            user_agent=self.agent,
            status=self.status,
            message=" ".join(self.refusal.split()) or _message(self.error),
            refused_by=self.refused_by,
            body=self.body,
            seconds=self.seconds,
        )


class RequestLog:
    """The last requests of one server. Nothing is kept unless it is `on`.

    components        names of users whose requests are only kept if they fail: controllers of the server itself
    keeps_components  whether all of theirs are kept, apart from the others: only `notes` has them
    """

    def __init__(self, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self.on = self.keeps_components = False
        self.components: set[str] = set()
        self._kept: deque[Note] = deque()
        self._of_components: deque[Note] = deque(maxlen=KEPT_OF_COMPONENTS)
        self._noted = 0
        self._size = 0
        self._most, self._most_bytes = kept, kept_bytes

    def note(self, request: Request, answer: Response | WatchResponse, seconds: float) -> None:
        """Keep a request with its answer. Called on every request while it is on, hence quick."""
        if is_of_server(request) or is_of_page(request):
            return
        status = answer.status if isinstance(answer, Response) else 200
        user = getattr(request, "user", None)  # which a request that is refused before has not
        is_of_component = status < 400 and user is not None and user.name in self.components
        if is_of_component and not self.keeps_components:
            return
        refusal = request.refusal if status >= 400 else ""
        error = answer.body if status >= 400 and not refusal and isinstance(answer, Response) else b""
        body = request.content if isinstance(request.content, bytes) else b""
        self._noted += 1
        note = Note(
            self._noted,
            request.clock.now(),
            request.info,
            request.query,
            user,
            request.headers.get("User-Agent", ""),
            request.headers.get("Content-Type", ""),
            body,
            status,
            refusal,
            error,
            request.refused_by,
            _change(request.writes),
            seconds,
        )
        if is_of_component:
            self._of_components.append(note)
            return
        self._kept.append(note)
        self._size += note.size
        while len(self._kept) > self._most or self._size > self._most_bytes:
            self._size -= self._kept.popleft().size

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()
        self._of_components.clear()
        self._size = 0

    def requests(self) -> list[LoggedRequest]:
        """Return the requests that are kept, in the order of their answers."""
        return [note.logged() for note in list(self._kept)]

    @property
    def last(self) -> int:
        """Return the number of the last request that was noted, 0 if there was none."""
        return self._noted

    @property
    def oldest(self) -> int:
        """Return the number of the oldest request that is kept; of the next one if none is."""
        firsts = (kept[0].number for kept in (self._kept, self._of_components) if kept)
        return min(firsts, default=self._noted + 1)

    def notes(self, after: int) -> list[Note]:
        """Return the notes with a higher number than `after`, those of components as well, in the order of answers."""
        newer = [*_newer(self._kept, after), *_newer(self._of_components, after)]
        return sorted(newer, key=lambda note: note.number)

    def lines(self, count: int) -> list[str]:
        """Return a line for each of the last requests, at most `count`, the newest last."""
        rows = [note.logged().cells() for note in list(self._kept)[-count:]]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        return ["  ".join([*map(str.ljust, row, widths), *row[3:]]).rstrip() for row in rows]


def _newer(notes: deque[Note], after: int) -> list[Note]:
    """Return the notes with a higher number, the newest first."""
    return [*takewhile(lambda note: note.number > after, reversed(notes))]


def _change(writes: Sequence[Entry] | None) -> Change | None:
    """Return the object that a request has written, None for none and for several."""
    if not writes or any(entry.key != writes[0].key for entry in writes):
        return None
    return Change(writes[0].key, writes[0].revision, writes[-1].revision)


def is_of_server(request: Request) -> bool:
    """Report whether the server itself asks, and not a test by the methods of `Server`."""
    return request.is_internal and request.headers.get("User-Agent", "") != TESTS_AGENT


def is_of_page(request: Request) -> bool:
    """Report whether the page at /ui/ asks for what it shows. What it writes is kept."""
    if request.path.startswith(UI):
        return True
    return request.method == "GET" and UI in request.headers.get("Referer", "")


def _message(body: bytes) -> str:
    """Return the message of a Status, or the text of another error, on one line; "" for no body."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):  # plain text, or an encoding that is not JSON
        text = body.decode(errors="replace")
    return " ".join(text.split())
