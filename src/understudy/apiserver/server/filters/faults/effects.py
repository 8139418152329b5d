"""Lets a request meet a fault: what is answered, and what is done before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from understudy.admission.webhooks import LoopWouldWaitError
from understudy.apiserver.endpoints.negotiation import JSON
from understudy.apiserver.endpoints.request import NO_ANSWER, Delivery, Request, Response, WatchResponse, WatchSource
from understudy.apiserver.endpoints.responsewriters.writers import text_response
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.registry import continue_token
from understudy.apiserver.registry.list import TOKEN_TOO_OLD
from understudy.apiserver.registry.resource_version import RETRY_AFTER, WAIT_SECONDS, too_large
from understudy.apiserver.server.filters.faults.meeting import Meeting
from understudy.apiserver.server.filters.faults.watches import CutWatch, WatchWithoutBookmarks
from understudy.apiserver.storage.interface import CompactedError, Store
from understudy.machinery import errors
from understudy.machinery.options import EXACT, boolean, resource_version
from understudy.machinery.serializer.json import encode
from understudy.machinery.util.timers import sleep

MakeError = Callable[[Request], Response | Exception]

FAULT = "fault"  # what refuses a request that meets one
WATCH_TOO_OLD = "The resourceVersion for the provided watch is too old."  # of etcd, in the middle of a watch


async def fail(error: MakeError, meeting: Meeting) -> Answer:
    """Answer with an error; do nothing of what was asked for."""
    meeting.fire()
    return _answered(error, meeting.request)


async def fail_after_commit(error: MakeError, meeting: Meeting) -> Answer:
    """Do what was asked for, then answer with an error. What the server refuses itself it answers itself."""
    answer = await meeting.proceed()
    if _is_refused(answer):
        return answer
    meeting.fire()
    return _answered(error, meeting.request)


def _answered(error: MakeError, request: Request) -> Response:
    answer = error(request)
    request.warnings.clear()
    request.refused_by = FAULT
    if isinstance(answer, errors.StatusError):
        raise answer.by(FAULT)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _is_refused(answer: Answer) -> bool:
    return isinstance(answer, Response) and answer.status >= 400


def too_many_requests(retry_after: int, request: Request) -> Response:
    """Return the 429 of a server whose queues are full. Upstream: `tooManyRequests`."""
    answer = text_response(429, "Too many requests, please try again later.\n")
    answer.headers.append(("Retry-After", str(retry_after)))
    return answer


def shutting_down(retry_after: int, request: Request) -> Response:
    """Return the 503 of a server that shuts down. Upstream: `waitGroupWriteRetryAfterToResponse`."""
    status = errors.StatusError(503, "ServiceUnavailable", "apiserver is shutting down").status()
    headers = [("X-Content-Type-Options", "nosniff")]
    if retry_after:
        headers.append(("Retry-After", str(retry_after)))
    return Response(503, encode(status) + b"\n\n", JSON, headers)


async def hang(after_commit: bool, meeting: Meeting) -> Answer:
    """Answer nothing, until the time of the request is over or the client goes away."""
    if after_commit and _is_refused(answer := await meeting.proceed()):
        return answer
    meeting.fire()
    await asyncio.Event().wait()
    raise AssertionError("nothing sets that event")


async def reset(after_commit: bool, meeting: Meeting) -> Answer:
    """Reset the connection instead of an answer."""
    answer: Answer = Response(0)
    if after_commit and _is_refused(answer := await meeting.proceed()):
        return answer
    meeting.fire()
    answer.delivery = Delivery(body_bytes=NO_ANSWER)
    meeting.request.refused_by = FAULT
    return answer


async def break_off(after_bytes: int, meeting: Meeting) -> Answer:
    """Reset the connection after some bytes of the answer's body."""
    answer = await meeting.proceed()
    meeting.fire()
    answer.delivery = Delivery(body_bytes=after_bytes)
    return answer


async def delay(seconds: float, meeting: Meeting) -> Answer:
    """Answer after some seconds of the server's clock."""
    meeting.fire()
    await sleep(meeting.request.clock, seconds)
    return await meeting.proceed()


async def slow(bytes_per_second: float, meeting: Meeting) -> Answer:
    """Let the answer trickle."""
    answer = await meeting.proceed()
    meeting.fire()
    answer.delivery = Delivery(bytes_per_second=bytes_per_second)
    return answer


# --- reads from a replica that lags behind --------------------------------------------------------------------


def may_be_stale(request: Request) -> bool:
    """Report whether a replica answers a read from its cache, however old that is: it asks for no newest state, and for
    no exact one; a watch has to begin with what is stored."""
    query = request.query
    version = query.get("resourceVersion")
    if request.info.verb == "watch":
        return version == "0" or bool(boolean(query, "sendInitialEvents") and version)
    return bool(version) and query.get("resourceVersionMatch") != EXACT and "continue" not in query


async def read_behind(behind: int, meeting: Meeting) -> Answer:
    """Answer a read from a replica whose cache is some revisions behind."""
    at = await _readable(meeting.store, max(meeting.store.revision - behind, 1))
    minimum = resource_version(meeting.request.query.get("resourceVersion"))
    if minimum > meeting.store.revision:
        return await meeting.proceed()
    meeting.fire()
    if minimum > at:
        await sleep(meeting.request.clock, WAIT_SECONDS)
        raise too_large(minimum, at, RETRY_AFTER)
    try:
        return await meeting.behind(at)
    except LoopWouldWaitError:  # for a webhook that converts: such objects are read as they are now
        return await meeting.proceed()


async def _readable(store: Store, revision: int) -> int:
    """Return a revision, or the oldest one that is still there if that is newer."""
    try:
        await store.range("/", limit=1, revision=revision)
    except CompactedError as error:
        return error.revision
    return revision


# --- watches --------------------------------------------------------------------------------------------------


async def _impaired(meeting: Meeting, impair: Callable[[WatchSource], WatchSource]) -> Answer:
    """Answer a watch whose events pass through another source."""
    answer = await meeting.proceed()
    if isinstance(answer, WatchResponse):
        answer.source = impair(answer.source)
    return answer


async def cut_watch(events: int, reset: bool, meeting: Meeting) -> Answer:
    """End a watch after some events."""
    return await _impaired(meeting, lambda source: CutWatch(source, events, meeting.fire, resets=reset))


async def expire_later(events: int, meeting: Meeting) -> Answer:
    """End a watch after some events with a 410."""
    error = errors.expired(WATCH_TOO_OLD)
    return await _impaired(meeting, lambda source: CutWatch(source, events, meeting.fire, error))


async def withhold_bookmarks(meeting: Meeting) -> Answer:
    """Leave bookmarks out of a watch."""
    return await _impaired(meeting, lambda source: WatchWithoutBookmarks(source, meeting.fire))


def goes_on(request: Request) -> bool:
    """Report whether a read goes on from somewhere: a watch from a resourceVersion, a list with a continue token."""
    if request.info.verb == "list":
        return bool(request.query.get("continue"))
    return request.query.get("resourceVersion") not in ("", "0")


async def expire(meeting: Meeting) -> Answer:
    """Answer a read that goes on from somewhere that it is too late for that."""
    query = meeting.request.query
    if meeting.request.info.verb == "list":
        start = continue_token.decode(query.get("continue")).start
        meeting.fire()
        raise errors.expired(TOKEN_TOO_OLD, continue_token.encode(start, continue_token.INCONSISTENT)).by(FAULT)
    error = errors.expired(f"too old resource version: {query.get('resourceVersion')} ({meeting.store.revision})")
    return await _impaired(meeting, lambda source: CutWatch(source, 0, meeting.fire, error))
