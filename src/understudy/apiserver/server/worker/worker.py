"""Answers requests that may take long in a thread other than the event loop's, so that others are answered meanwhile.

Those are requests with large objects, those that wait for conversion webhooks, and those whose expressions of CEL have
done on the loop what they may do there (`admission.interrupts`).

The event loop owns the store: what the thread reads and writes there is done on the loop, and a request whose reads are
outdated when it writes starts over. Webhooks are called on the loop only. The thread has a deep stack, for requests
that recurse deeper than Python's recursion limit, which is that of all threads: a loop with an ordinary stack stands
still while they do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

from understudy.admission.webhooks import Call, CallError, Reply, TimedReply
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.filters.request_deadline import out_of_time
from understudy.apiserver.server.worker.store_on_loop import OutdatedError, StoreOnLoop
from understudy.cel.limits.interrupts import EvaluationInterruptedError, Meter, metered
from understudy.machinery.errors import StatusError, bad_request
from understudy.machinery.util.deep_recursion import has_deep_stack, on_deep_stack, run_to_end, start_on_deep_stack

Handle = Callable[[ServerState, Request], Coroutine[Any, Any, Answer]]
BRIEFLY = 200_000  # work of expressions for a large object, about 0.2 s: all other large objects wait for it
EVALUATIONS = 4  # requests at once whose expressions take long: each delays what the loop does by some milliseconds
TRIES = 4  # of a request that others outdate, before the loop has to wait for it


class OnlyOnLoopError(Exception):
    """A request has to wait for more than the store, which only the event loop can do."""


class _WebhooksOfLoop:
    """The webhooks for requests in the thread: they have to be called on the event loop."""

    async def call(self, calls: Sequence[Call]) -> list[TimedReply]:
        raise OnlyOnLoopError

    def call_and_wait(self, call: Call) -> Reply | CallError:
        raise OnlyOnLoopError


class Worker:
    """Runs handlers of requests in a thread, one at a time: more of them would only share Python's one interpreter.

    Those that wait for conversion webhooks have a thread each, since webhooks may send requests that wait as well.
    """

    def __init__(self, state: ServerState) -> None:
        self._on_loop = state
        self._turn = asyncio.Lock()
        self._evaluations = asyncio.Semaphore(EVALUATIONS)
        self._waiting: dict[asyncio.Future[Answer], Meter] = {}

    async def answer(self, handle: Handle, request: Request, *, alone: bool = False) -> Answer:
        """Return the answer of a handler that suspends for nothing but the store; 400 for one that recurses too deep.

        `alone`: the loop is blocked while it recurses deep, so that several writes belong together. A client that
        goes away does not stop it. Raises OnlyOnLoopError for a handler that calls webhooks, EvaluationTakesLongError
        for one whose expressions take long.
        """
        await self._turn.acquire()
        store = StoreOnLoop(self._on_loop.registry.store, asyncio.get_running_loop(), request.seconds_left)
        guard = store.stopped_loop if alone or not has_deep_stack() else None
        thread = start_on_deep_stack(partial(self._answer, handle, request, store, inf if alone else BRIEFLY), guard)
        answer = asyncio.wrap_future(thread)
        answer.add_done_callback(self._end_turn)
        return await asyncio.shield(answer)

    async def wait(self, handle: Handle, request: Request) -> Answer:
        """Return the answer of a handler that waits for webhooks in the middle of what does not wait.

        It does not start over if others write meanwhile, since webhooks would be asked again. A client that goes away
        stops nothing but its evaluations of CEL.
        """
        meter = Meter(deadline=time.monotonic() + request.seconds_left())
        loop, on_loop = asyncio.get_running_loop(), self._on_loop
        store = StoreOnLoop(on_loop.registry.store, loop, request.seconds_left, remembers=False)
        state = on_loop.for_thread(Registry(store, on_loop.serving), on_loop.webhooks)
        answer_waiting = partial(_answer_waiting, handle, state, request, store, meter)
        thread = start_on_deep_stack(answer_waiting, None if has_deep_stack() else store.stopped_loop)
        answer = asyncio.wrap_future(thread)
        self._waiting[answer] = meter
        answer.add_done_callback(self._waiting.pop)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            meter.end()
            raise

    async def evaluate(self, handle: Handle, request: Request) -> Answer:
        """Return the answer of a handler that evaluates expressions for long."""
        async with self._evaluations:
            return await self.wait(handle, request)

    async def finish(self) -> None:
        """Wait until nothing runs in a thread; what is evaluated there ends."""
        for meter in self._waiting.values():
            meter.end()
        async with self._turn:
            pass
        await asyncio.gather(*self._waiting, return_exceptions=True)

    def _end_turn(self, answer: asyncio.Future[Answer]) -> None:
        self._turn.release()
        if not answer.cancelled():
            answer.exception()  # the client that would get it may have gone

    def _answer(self, handle: Handle, request: Request, store: StoreOnLoop, most: float) -> Answer:
        """Return the answer of a handler, in the thread. `most` is the work that its expressions may do."""
        warnings = len(request.warnings)

        def run() -> Answer:
            del request.warnings[warnings:]
            return run_to_end(handle(store.call(self._state_for, store), request))

        try:
            for _ in range(TRIES):
                with suppress(OutdatedError), metered(Meter(most=most)):
                    return _at_any_depth(run, store)
            with store.stopped_loop(), metered(Meter(most=most)):
                return _at_any_depth(run, store)
        except StatusError as error:
            return error_response(request, error)  # here, because there may be a hundred thousand causes

    def _state_for(self, store: StoreOnLoop) -> ServerState:
        """Return the state of the server for a request that begins, on the event loop."""
        serving = self._on_loop.serving
        store.begin(lambda: self._on_loop.serving is serving)
        return self._on_loop.for_thread(Registry(store, serving), _WebhooksOfLoop())


def _answer_waiting(handle: Handle, state: ServerState, request: Request, store: StoreOnLoop, meter: Meter) -> Answer:
    """Return the answer of a handler that waits for webhooks, in its thread."""
    warnings = len(request.warnings)

    def run() -> Answer:
        del request.warnings[warnings:]
        return run_to_end(handle(state, request))

    try:
        with metered(meter):
            return _at_any_depth(run, store)
    except EvaluationInterruptedError:
        return error_response(request, out_of_time())
    except StatusError as error:
        return error_response(request, error)


def _at_any_depth(run: Callable[[], Answer], store: StoreOnLoop) -> Answer:
    """Run a request, and once more with a higher recursion limit if it recurses too deep before it has written."""
    try:
        return run()
    except RecursionError:
        if store.has_written:
            raise
    try:
        return on_deep_stack(run)
    except RecursionError:
        raise bad_request("exceeded max depth") from None
