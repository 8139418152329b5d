"""Keeps the last requests of a server and what became of them, for tests.

    create   /api/v1/namespaces/default/pods   ann                403  pods is forbidden: User "ann" cannot create …
    list     /api/v1/nodes?labelSelector=a     system:admin       200

Noting a request keeps what is there anyway; text is made when it is asked for.
"""

from __future__ import annotations

import json
from collections import deque
from typing import NamedTuple

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.server.filters.request_log.requests import LoggedRequest
from understudy.apiserver.server.pages.open_pages import PREFIX as UI
from understudy.machinery.auth.users import User
from understudy.machinery.options import Query

KEPT = 10_000  # requests
KEPT_BYTES = 32 << 20  # of their paths and bodies
TESTS_AGENT = "understudy"  # the user agent of what tests ask by methods of `Server`


class _Note(NamedTuple):
    """A request that was answered. `user` is None for a request that was not authenticated; `error` is the answer's
    body, if it is an error."""

    info: RequestInfo
    query: Query
    user: User | None
    agent: str
    body: bytes
    status: int
    error: bytes
    seconds: float

    @property
    def size(self) -> int:
        """Return about the bytes that it takes beside a few hundred: those of texts that a client may make long."""
        return len(self.body) + len(self.error) + len(self.info.path) + len(self.query.text) + len(self.agent)

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
            message=_message(self.error),
            body=self.body,
            seconds=self.seconds,
        )


class RequestLog:
    """The last requests of one server. Nothing is kept unless it is `on`.

    components  names of users whose requests are only kept if they fail: controllers of the server itself
    """

    def __init__(self, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self.on = False
        self.components: set[str] = set()
        self._kept: deque[_Note] = deque()
        self._size = 0
        self._most, self._most_bytes = kept, kept_bytes

    def note(self, request: Request, answer: Response | WatchResponse, seconds: float) -> None:
        """Keep a request with its answer. Called on every request while it is on, hence quick."""
        agent = request.headers.get("User-Agent", "")
        if (request.is_internal and agent != TESTS_AGENT) or _is_of_page(request):
            return
        status = answer.status if isinstance(answer, Response) else 200
        user = getattr(request, "user", None)  # which a request that is refused before has not
        if status < 400 and user is not None and user.name in self.components:
            return
        error = answer.body if status >= 400 and isinstance(answer, Response) else b""
        body = request.content if isinstance(request.content, bytes) else b""
        note = _Note(request.info, request.query, user, agent, body, status, error, seconds)
        self._kept.append(note)
        self._size += note.size
        while len(self._kept) > self._most or self._size > self._most_bytes:
            self._size -= self._kept.popleft().size

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()
        self._size = 0

    def requests(self) -> list[LoggedRequest]:
        """Return the requests that are kept, in the order of their answers."""
        return [note.logged() for note in list(self._kept)]

    def lines(self, count: int) -> list[str]:
        """Return a line for each of the last requests, at most `count`, the newest last."""
        rows = [note.logged().cells() for note in list(self._kept)[-count:]]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        return ["  ".join([*map(str.ljust, row, widths), *row[3:]]).rstrip() for row in rows]


def _is_of_page(request: Request) -> bool:
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
