"""The kinds of faults. Each answers as the real server does where that goes wrong, or as what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.filters.faults import effects
from understudy.apiserver.server.filters.faults.meeting import Effect
from understudy.apiserver.server.filters.request_deadline import out_of_time
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.types import dataclass

CHANGES = ("update", "patch", "delete")  # of an object that is there
WRITES = ("create", *CHANGES, "deletecollection")
READS = ("get", "list", "watch")
WATCH = ("watch",)
WITH_BODY = ("get", "list", *WRITES)  # requests whose answer has a body that ends

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong with a request. Static methods make the faults that there are.

        Fault.conflict()                        # the object was changed meanwhile; nothing is written
        Fault.reset(after_commit=True)          # it is written, and the answer is lost

    Where there is `after_commit`, the server has done what was asked for before things go wrong; only requests that
    write meet such a fault.

    name        of the static method
    parameters  that it was called with, and defaults
    verbs       of requests that can meet it
    """

    name: str
    parameters: Parameters
    verbs: Collection[str] = field(repr=False, default=())  # none: requests of any verb
    effect: Effect = field(repr=False, compare=False, kw_only=True)
    concerns: Callable[[Request], bool] = field(repr=False, compare=False, kw_only=True, default=lambda request: True)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.parameters.items())})"

    @staticmethod
    def conflict() -> Fault:
        """Return a 409: the object was changed since it was read. Updates, patches and deletions meet it."""
        return Fault("conflict", {}, CHANGES, effect=partial(effects.fail, _conflict))

    @staticmethod
    def too_many_requests(*, retry_after: int = 1) -> Fault:
        """Return a 429 of a server with too much to do. Clients try again after some seconds."""
        effect = partial(effects.fail, partial(effects.too_many_requests, retry_after))
        return Fault("too_many_requests", {"retry_after": retry_after}, effect=effect)

    @staticmethod
    def server_error(message: str = "etcdserver: request timed out", *, after_commit: bool = False) -> Fault:
        """Return a 500, as for an error of etcd."""
        parameters = {"message": message, "after_commit": after_commit}
        return _failure("server_error", parameters, lambda request: errors.unknown_error(message))

    @staticmethod
    def service_unavailable(*, retry_after: int = 1, after_commit: bool = False) -> Fault:
        """Return a 503 of a server that shuts down. Clients try again after some seconds; 0 does not ask them to."""
        parameters = {"retry_after": retry_after, "after_commit": after_commit}
        return _failure("service_unavailable", parameters, partial(effects.shutting_down, retry_after))

    @staticmethod
    def timeout(*, after_commit: bool = False) -> Fault:
        """Return a 504 at once, as the real server does when the time of a request is over."""
        return _failure("timeout", {"after_commit": after_commit}, out_of_time)

    @staticmethod
    def hang(*, after_commit: bool = False) -> Fault:
        """Return a fault that leaves a request without an answer.

        It ends when the client gives up, or when the server does: a write after 34 seconds, a read after 60, with a
        504. A watch hangs for as long as its client waits.
        """
        verbs = WRITES if after_commit else ()
        return Fault("hang", {"after_commit": after_commit}, verbs, effect=partial(effects.hang, after_commit))

    @staticmethod
    def reset(*, after_commit: bool = False, after_bytes: int | None = None) -> Fault:
        """Return a fault that resets the connection instead of an answer, or in the middle of it.

        after_bytes  of the body, the connection is reset; what was asked for is done
        """
        if after_bytes is not None:
            parameters = {"after_bytes": _not_negative("after_bytes", after_bytes)}
            return Fault("reset", parameters, WITH_BODY, effect=partial(effects.break_off, after_bytes))
        verbs = WRITES if after_commit else ()
        return Fault("reset", {"after_commit": after_commit}, verbs, effect=partial(effects.reset, after_commit))

    @staticmethod
    def delay(seconds: float) -> Fault:
        """Return a fault that answers a request after some seconds of the server's clock. It is not done before."""
        parameters = {"seconds": _not_negative("seconds", seconds)}
        return Fault("delay", parameters, effect=partial(effects.delay, seconds))

    @staticmethod
    def slow(bytes_per_second: int) -> Fault:
        """Return a fault that lets the answer trickle, head and body, events of a watch too."""
        if bytes_per_second < 1:
            raise ValueError(f"want one byte per second or more, not {bytes_per_second}")
        return Fault("slow", {"bytes_per_second": bytes_per_second}, effect=partial(effects.slow, bytes_per_second))

    @staticmethod
    def stale(behind: int) -> Fault:
        """Return a fault that reads from a replica whose cache is some revisions behind.

        A read that any state will do for (`resourceVersion=0`) gets an old one; one that wants at least a version which
        the replica does not have yet gets a 504 after three seconds, "Too large resource version". Reads without a
        resourceVersion do not meet it: they are consistent, whichever replica answers. A watch that begins with what is
        stored begins with an old state, and gets what was written since.

        behind  revisions, of all kinds together
        """
        parameters = {"behind": _not_negative("behind", behind)}
        effect = partial(effects.read_behind, behind)
        return Fault("stale", parameters, READS, effect=effect, concerns=effects.may_be_stale)

    @staticmethod
    def cut_watch(events: int, *, reset: bool = False) -> Fault:
        """Return a fault that ends a watch after some events (bookmarks do not count), as if its time were up.

        reset  whether the connection is reset
        """
        parameters = {"events": _not_negative("events", events), "reset": reset}
        return Fault("cut_watch", parameters, WATCH, effect=partial(effects.cut_watch, events, reset))

    @staticmethod
    def expired(events: int | None = None) -> Fault:
        """Return a 410, as for a revision that was compacted: clients have to list again.

        A watch that goes on from a resourceVersion meets it, and a list that goes on with a continue token.

        events  after which any watch is told, in the middle of it
        """
        if events is None:
            verbs, effect = ("watch", "list"), effects.expire
            return Fault("expired", {}, verbs, effect=effect, concerns=effects.goes_on)
        parameters = {"events": _not_negative("events", events)}
        return Fault("expired", parameters, WATCH, effect=partial(effects.expire_later, events))

    @staticmethod
    def no_bookmarks() -> Fault:
        """Return a fault that leaves the bookmarks out of a watch, but for the one that ends initial events."""
        return Fault("no_bookmarks", {}, WATCH, effect=effects.withhold_bookmarks)


def _failure(name: str, parameters: Parameters, error: effects.MakeError) -> Fault:
    """Return a fault that answers with an error, before or after the request is done."""
    if parameters["after_commit"]:
        return Fault(name, parameters, WRITES, effect=partial(effects.fail_after_commit, error))
    return Fault(name, parameters, effect=partial(effects.fail, error))


def _conflict(request: Request) -> Response | StatusError:
    info = request.info
    return errors.optimistic_lock_conflict(info.group, info.resource, info.name)


def _not_negative(name: str, number: float) -> float:
    if number < 0:
        raise ValueError(f"want {name} that are not negative, not {number}")
    return number
