"""Keeps the last requests of a server and what became of them, for tests that fail.

    create   /api/v1/namespaces/default/pods   ann                403  pods is forbidden: User "ann" cannot create …
    list     /api/v1/nodes?labelSelector=a     system:admin       200

Noting a request keeps what is there anyway; text is made when it is asked for.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.machinery.auth.users import User
from understudy.machinery.options import Query

KEPT = 100  # requests
TESTS_AGENT = "understudy"  # the user agent of what tests ask by methods of `Server`


class _Note(NamedTuple):
    """A request that was answered. `user` is None for a request that was not authenticated; `body` is the answer's, if
    it is an error."""

    info: RequestInfo
    query: Query
    user: User | None
    status: int
    body: bytes


class RequestLog:
    """The last requests of one server. Nothing is kept unless it is `on`.

    components  names of users whose requests are only kept if they fail: controllers of the server itself
    """

    def __init__(self) -> None:
        self.on = False
        self.components: set[str] = set()
        self._kept: deque[_Note] = deque(maxlen=KEPT)

    def note(self, request: Request, answer: Response | WatchResponse) -> None:
        """Keep a request with its answer. Called on every request while it is on, hence quick."""
        if request.is_internal and request.headers["User-Agent"] != TESTS_AGENT:
            return
        status = answer.status if isinstance(answer, Response) else 200
        user = getattr(request, "user", None)  # which a request that is refused before has not
        if status < 400 and user is not None and user.name in self.components:
            return
        body = answer.body if status >= 400 and isinstance(answer, Response) else b""
        self._kept.append(_Note(request.info, request.query, user, status, body))

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()

    def lines(self, count: int) -> list[str]:
        """Return a line for each of the last requests, at most `count`, the newest last."""
        rows = [tuple(_cells(note)) for note in list(self._kept)[-count:]]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        return ["  ".join([*map(str.ljust, row, widths), *row[3:]]).rstrip() for row in rows]


def _cells(note: _Note) -> Iterator[str]:
    """Yield verb, path, user, status and message of a request."""
    query = "&".join(f"{name}={value}" for name, value in note.query.items())
    yield note.info.verb
    yield f"{note.info.path}?{query}" if query else note.info.path
    yield note.user.name if note.user else "(unknown)"
    yield str(note.status)
    yield _message(note.body)


def _message(body: bytes) -> str:
    """Return the message of a Status, or the text of another error, on one line."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):  # plain text, or an encoding that is not JSON
        text = body.decode(errors="replace")
    return " ".join(text.split())
