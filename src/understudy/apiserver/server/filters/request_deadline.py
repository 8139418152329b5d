"""Ends requests that take too long. Upstream: `WithRequestDeadline`, `WithTimeoutForNonLongRunningRequests`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from math import inf
from time import monotonic
from types import coroutine
from typing import Any, TypeVar

from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery import errors
from understudy.machinery.options import request_timeout
from understudy.machinery.serializer.json import encode

T = TypeVar("T")
_SHORTEST = 1e-6  # seconds in which nothing can be answered
LONGEST = 60.0  # seconds that a request may take (--request-timeout)
LONGEST_WRITE = 34.0  # seconds that a write of an object may take (`requestTimeoutUpperBound`)
_WRITES = ("create", "update", "patch", "delete")


class RequestTimeoutError(Exception):
    """A request took longer than its client gives it, or than the server gives to any."""


def with_request_deadline(request: Request) -> None:
    """Set when a request is given up that is not long-running; `?timeout=` may say when.

    Raises 400, and RequestTimeoutError for a request that is over immediately.
    """
    info = request.info
    if info.long_running:
        return
    seconds = request_timeout(request.query.get("timeout")) if request.query else 0.0
    if 0 < seconds < _SHORTEST:
        raise RequestTimeoutError
    now = monotonic()
    request.deadline = now + (seconds if 0 < seconds < LONGEST else LONGEST)
    if info.verb in _WRITES and info.is_resource:
        request.write_deadline = now + LONGEST_WRITE


async def in_time(answering: Coroutine[Any, Any, T], request: Request) -> T:
    """Return the answer of a request; cancel what is not answered in time.

    Raises RequestTimeoutError, and 504 for a write of an object that its client would wait longer for. A timer is made
    only for a request that waits for something.
    """
    try:
        awaited = answering.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    left = request.seconds_left()
    limit = asyncio.timeout(None if left == inf else max(left, 0))
    try:
        async with limit:
            return await _resumed(answering, awaited)
    except TimeoutError:
        if not limit.expired():
            raise
        raise out_of_time(request) from None
    finally:
        del limit  # it refers to the task, whose error refers to this frame


@coroutine
def _resumed(answering: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has begun, and has yielded what it awaits; return its result."""
    while True:
        try:
            resume = partial(answering.send, (yield awaited))
        except BaseException as error:  # handed over to the coroutine
            resume = partial(answering.throw, error)
        try:
            awaited = resume()
        except StopIteration as done:
            answer: T = done.value
            return answer
        finally:
            del resume  # an error that was thrown refers to this frame, and only a search for cycles would free both


def out_of_time(request: Request) -> RequestTimeoutError | errors.StatusError:
    """Return the error of a request whose time is over: 504 for a write of an object that its client would wait longer
    for, else a RequestTimeoutError."""
    if request.deadline < request.write_deadline:
        return RequestTimeoutError()
    return errors.timeout("Timeout: request did not complete within requested timeout - context deadline exceeded", 0)


def timed_out() -> Response:
    """Return the answer for a RequestTimeoutError: a Status without its kind, as text."""
    status = errors.timeout("Timeout: request did not complete within the allotted timeout", 0).status()
    body = encode({name: value for name, value in status.items() if name not in ("kind", "apiVersion")}) + b"\n"
    return Response(504, body, "text/plain; charset=utf-8")
