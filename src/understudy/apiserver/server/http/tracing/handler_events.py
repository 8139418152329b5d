"""The events of the span of a handler: how far a request came.

    Get      About to Get from storage · About to write a response · Writing http response done
    Create   limitedReadBody succeeded · About to convert to expected version · Conversion done · About to store object
             in database · Write to database call succeeded, or failed · …

They are added when the answer is there. Those that have to do with the store have its times, the ones before them that
of the beginning: what lies between is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.apiserver.server.http.tracing.request_trace import NONE, Attributes
from understudy.machinery.releases.version import V1_36, Version
from understudy.machinery.types import NamedTuple

BEGUN, ASKED, STORED, ENDED = range(4)  # when: the handler begins, the store is asked, it has answered, and all is done
SPANS = {
    "get": "Get",
    "list": "List",
    "create": "Create",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
}


class Event(NamedTuple):
    """An event of a span; `when` is one of the times above."""

    when: int
    name: str
    attributes: Attributes = NONE


class Outcome(NamedTuple):
    """The outcome of a handler.

    status  of the answer
    error   the message of the answer, if that is an error
    body    bytes of the request's
    listed  objects of a list
    release of the server
    """

    status: int
    error: str
    body: int
    listed: int
    release: Version

    @property
    def is_success(self) -> bool:
        """Report whether the request did what it should."""
        return self.status < 400


def events(verb: str, outcome: Outcome) -> Iterator[Event]:
    """Yield the events of a handler in their order."""
    yield from _before_answer(verb, outcome)
    if not outcome.is_success or (verb == "list" and outcome.release >= V1_36):
        return
    if verb == "list":
        yield Event(ENDED, "Writing http response done", {"count": outcome.listed})
        return
    yield Event(STORED, "About to write a response")
    yield Event(ENDED, "Writing http response done")


def _before_answer(verb: str, outcome: Outcome) -> Iterator[Event]:
    """Yield the events until the handler has its answer."""
    if verb == "get":
        yield Event(BEGUN, "About to Get from storage")
    elif verb == "list":
        if outcome.release < V1_36:
            yield Event(ASKED, "About to List from storage")
            if outcome.is_success:
                yield Event(STORED, "Listing from storage done")
    else:
        yield Event(BEGUN, "limitedReadBody succeeded", {"len": outcome.body})
        steps = {"create": _write, "update": _write, "patch": _patch, "delete": _delete}.get(verb)
        if steps is not None:
            yield from steps(outcome)


def _write(outcome: Outcome) -> Iterator[Event]:
    yield Event(BEGUN, "About to convert to expected version")
    if outcome.status in (400, 415):  # the body could not be read
        return
    yield Event(BEGUN, "Conversion done")
    yield Event(ASKED, "About to store object in database")
    if outcome.is_success:
        yield Event(STORED, "Write to database call succeeded", {"len": outcome.body})
    else:
        yield Event(STORED, "Write to database call failed", {"len": outcome.body, "err": outcome.error})


def _patch(outcome: Outcome) -> Iterator[Event]:
    if not outcome.is_success and outcome.status != 404:
        return
    yield Event(BEGUN, "Recorded the audit event")
    if outcome.is_success:
        yield Event(ASKED, "About to apply patch")
        yield Event(ASKED, "About to check admission control")
        yield Event(STORED, "Object stored in database")


def _delete(outcome: Outcome) -> Iterator[Event]:
    if outcome.body:
        yield Event(BEGUN, "Decoded delete options")
        yield Event(BEGUN, "Recorded the audit event")
    yield Event(ASKED, "About to delete object from database")
    if outcome.is_success:
        yield Event(STORED, "Object deleted from database")
