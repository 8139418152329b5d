"""Admits requests, or refuses them since too many are answered: what its two kinds share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import text_response
from understudy.apiserver.server.pages.exposition import Family
from understudy.apiserver.server.pages.mux import Page


class TooManyRequestsError(Exception):
    """A request is refused since there are too many; its client may try again after some seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class TurnAwaitedError(Exception):
    """A request has to wait for its turn, which raises TooManyRequestsError if it does not come."""

    def __init__(self, turn: Coroutine[Any, Any, None]) -> None:
        super().__init__()
        self.turn = turn


class Limiter(Protocol):
    """Limits the requests that are answered at once.

    pages  {path: page} that show what it does
    """

    pages: Mapping[str, Page]

    def admit(self, request: Request) -> None:
        """Admit a request, and set its `leave`. Raises TurnAwaitedError, after which it is, or TooManyRequestsError."""

    async def adjust_periodically(self, pause: Callable[[float], Awaitable[None]]) -> None:
        """Adjust its limits now and then, where they change."""

    def families(self) -> Iterable[Family]:
        """Return the metrics of requests that are admitted."""


def too_many_requests(error: TooManyRequestsError) -> Response:
    """Return the answer to a request that is refused since there are too many."""
    answer = text_response(429, "Too many requests, please try again later.\n")
    answer.headers.append(("Retry-After", str(error.retry_after)))
    return answer
