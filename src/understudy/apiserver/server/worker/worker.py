"""The threads beside the event loop in which requests are answered that may take long, so that others are answered
meanwhile, and in which expressions are evaluated that do (`Executor` says when).

The event loop owns the store: what a thread reads and writes there is done on the loop, and a request whose reads are
outdated when it writes begins anew, unless it has called a webhook; after some tries those who change what it reads
wait for it. The threads have deep stacks, for requests that
recurse deeper than Python's recursion limit, which is that of all threads: a loop with an ordinary stack stands still
while they do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import partial
from itertools import count
from typing import Any, TypeVar

from understudy.admission.webhooks import Call, CallError, Reply, TimedReply, WebhookClient
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.allocations import Allocations
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.filters.request_deadline import out_of_time
from understudy.apiserver.server.worker.authorizer_on_loop import AuthorizerOnLoop, DeciderOnLoop
from understudy.apiserver.server.worker.held_keys import HeldKeys, Hold
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.apiserver.server.worker.store_on_loop import OutdatedError, StoreOnLoop
from understudy.cel.limits.interrupts import EvaluationInterruptedError, Meter, Outside, here, metered
from understudy.machinery.errors import StatusError, bad_request
from understudy.machinery.util.deep_recursion import (
    Guard,
    call_deeply,
    has_deep_stack,
    is_alone,
    on_deep_stack,
    run_to_end,
    start_on_deep_stack,
)
from understudy.machinery.util.pieces import release

T = TypeVar("T")
Handle = Callable[[ServerState, Request], Coroutine[Any, Any, Answer]]
BRIEFLY = 200_000  # work of expressions for a large object, about 0.2 s: all other large objects wait for it
EVALUATIONS = 4  # at once that take long: each delays what the loop does by some milliseconds
TRIES = 4  # of a request that others outdate, before they have to wait for it


class _WebhooksFromThread:
    """The webhooks for a request in the thread, which does not start over once it has called one.

    begin  is called before each call: others have their turn, and what the request has read need not hold any more
    """

    def __init__(self, webhooks: WebhookClient, loop: LoopFromThread, begin: Callable[[], None]) -> None:
        self._webhooks = webhooks
        self._loop = loop
        self._begin = begin

    async def call(self, calls: Sequence[Call]) -> list[TimedReply]:
        with self._waiting():
            return await self._webhooks.call(calls)

    async def pause(self, seconds: float) -> None:
        with self._waiting():
            await self._webhooks.pause(seconds)

    def call_and_wait(self, call: Call) -> Reply | CallError:
        with self._waiting():
            return self._webhooks.call_and_wait(call)

    def _waiting(self) -> AbstractContextManager[None]:
        """Let the event loop go on meanwhile. Raises 400 if it must not, since this thread recurses too deep."""
        if is_alone():
            raise bad_request("exceeded max depth")
        self._begin()
        return self._loop.going_on()


class Worker:
    """Runs handlers of requests in a thread, one at a time: more of them would only share Python's one interpreter.

    Those that wait for conversion webhooks have a thread each, since webhooks may send requests that wait as well, and
    so have evaluations that take long. What is evaluated for a client ends when it goes away.
    """

    def __init__(self, state: ServerState) -> None:
        self._on_loop = state
        self.held = HeldKeys()
        self._turn = asyncio.Lock()
        self._evaluations = asyncio.Semaphore(EVALUATIONS)
        self._running: dict[asyncio.Future[Any], Meter] = {}

    async def answer(self, handle: Handle, request: Request, *, alone: bool = False) -> Answer:
        """Return the answer of a handler that suspends for the store and webhooks only; 400 for one that recurses too
        deep.

        `alone`: the loop stands still while it recurses deep, so that several writes belong together. A client that
        goes away does not stop it.
        """
        request.beside = None
        await self._turn.acquire()
        turn, hold = _Turn(self._turn), Hold(self.held)
        loop = LoopFromThread(asyncio.get_running_loop())
        store = StoreOnLoop(self._on_loop.registry.store, loop, request)

        async def beside(function: Callable[[], T]) -> T:
            with loop.going_on():
                loop.call(turn.end)
                evaluating = asyncio.run_coroutine_threadsafe(self.evaluate(request, function), loop.loop)
                return loop.result(evaluating)

        def begin_waiting() -> None:
            store.stop_remembering()
            loop.call(end)

        def end() -> None:
            turn.end()
            hold.end()

        webhooks = _WebhooksFromThread(self._on_loop.webhooks, loop, begin_waiting)
        meter = Meter(most=BRIEFLY, beside=beside, outside=self._outside(loop))
        answer = partial(self._answer_current, handle, request, store, loop, webhooks, hold)
        guard = loop.stopped if alone or not has_deep_stack() else None
        return await self._start(request, partial(_answered, answer, request), meter, guard, end)

    async def wait(self, handle: Handle, request: Request) -> Answer:
        """Return the answer of a handler that waits for webhooks in the middle of what does not wait.

        It does not start over if others write meanwhile, since webhooks would be asked again. A client that goes away
        stops nothing but its evaluations of CEL.
        """
        request.beside = None
        loop, on_loop = LoopFromThread(asyncio.get_running_loop()), self._on_loop
        store = StoreOnLoop(on_loop.registry.store, loop, request, remembers=False)
        state = self._state_for(store, on_loop.webhooks, loop)
        answer = partial(_answer_at_any_depth, handle, lambda: state, request, store)
        guard = None if has_deep_stack() else loop.stopped
        return await self._start(
            request, partial(_answered, answer, request), _meter(request, self._outside(loop)), guard
        )

    async def beside(self, request: Request, function: Callable[[], T], /) -> T:
        """Return the result of a function that may take long, for a request that is answered on the event loop.

        Raises as it does. It may be called twice.
        """
        await self._turn.acquire()
        loop = LoopFromThread(asyncio.get_running_loop())
        guard = None if has_deep_stack() else loop.stopped
        return await self._start(
            request, partial(call_deeply, function), _meter(request, loop.call), guard, self._turn.release
        )

    async def evaluate(self, request: Request, function: Callable[[], T]) -> T:
        """Return the result of a function that evaluates expressions for long. Raises as it does."""
        async with self._evaluations:
            loop = LoopFromThread(asyncio.get_running_loop())
            guard = None if has_deep_stack() else loop.stopped
            return await self._start(request, partial(call_deeply, function), _meter(request, loop.call), guard)

    async def _start(
        self,
        request: Request,
        function: Callable[[], T],
        meter: Meter,
        guard: Guard | None,
        end: Callable[[], None] = lambda: None,
    ) -> T:
        """Call a function for a request in a thread, and return its result; `end` is called when it is done.

        Raises what it raises, and 504 or RequestTimeoutError if the time of the request is over.
        """

        def run() -> T:
            with metered(meter):
                return function()

        def done(result: asyncio.Future[T]) -> None:
            del self._running[result]
            end()
            if not result.cancelled():
                result.exception()  # the client that would get it may have gone

        result = asyncio.wrap_future(start_on_deep_stack(partial(copy_context().run, run), guard))
        self._running[result] = meter
        result.add_done_callback(done)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            meter.end()
            raise
        except EvaluationInterruptedError:
            raise out_of_time(request) from None

    async def finish(self) -> None:
        """Wait until nothing runs in a thread; what is evaluated there ends."""
        while self._running:
            for meter in self._running.values():
                meter.end()
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    def _answer_current(
        self,
        handle: Handle,
        request: Request,
        store: StoreOnLoop,
        loop: LoopFromThread,
        webhooks: WebhookClient,
        hold: Hold,
    ) -> Answer:
        """Return the answer of a handler, in the thread; it begins anew until nobody has written meanwhile.

        Raises as `out_of_time` does.
        """
        state = partial(loop.call, self._state_for, store, webhooks, loop)
        for tries in count(1):
            try:
                return _answer_at_any_depth(handle, state, request, store)
            except OutdatedError as outdated:
                if request.seconds_left() <= 0:
                    raise out_of_time(request) from None
                if tries >= TRIES:
                    loop.call(hold.add, outdated.keys)
        raise AssertionError("there are always more tries")

    def _state_for(self, store: StoreOnLoop, webhooks: WebhookClient, loop: LoopFromThread) -> ServerState:
        """Return the state of the server for a request that begins, on the event loop."""
        serving = self._on_loop.serving
        store.begin(lambda: self._on_loop.serving is serving)
        allocations = Allocations(store, serving, self._on_loop.registry.allocations.pending, store.at_once)
        whole = self._on_loop.registry
        registry = Registry(store, serving, allocations, whole.metrics, caches=whole.caches)
        state = self._on_loop.for_thread(registry, webhooks)
        if state.asks_outside:
            state.decide = DeciderOnLoop(loop)
            state.ask(AuthorizerOnLoop(state.authorizer, state.decide))
        return state

    def _outside(self, loop: LoopFromThread) -> Outside:
        """Return the caller of the authorizer for expressions: `AuthorizerOnLoop` does so by itself."""
        return here if self._on_loop.asks_outside else loop.call


class _Turn:
    """The turn of one request among those that may take long. It ends once."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock: asyncio.Lock | None = lock

    def end(self) -> None:
        """Let the next request have its turn, on the event loop."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _meter(request: Request, outside: Outside) -> Meter:
    """Return the meter of evaluations for a request in a thread: they end when its time is over."""
    return Meter(deadline=time.monotonic() + request.seconds_left(), outside=outside)


def _answered(answer: Callable[[], Answer], request: Request) -> Answer:
    """Return an answer, in a thread: also that for an error, here because it may have a hundred thousand causes."""
    try:
        return answer()
    except StatusError as error:
        response = error_response(request, error)
        release((error.details or {}).get("causes", []))
        return response


def _answer_at_any_depth(
    handle: Handle, state: Callable[[], ServerState], request: Request, store: StoreOnLoop
) -> Answer:
    """Return the answer of a handler, and run it once more with a higher recursion limit if it recurses too deep before
    it has written."""
    warnings = len(request.warnings)

    def run() -> Answer:
        del request.warnings[warnings:]
        return run_to_end(handle(state(), request))

    try:
        return run()
    except RecursionError:
        if store.has_written:
            raise
    try:
        return on_deep_stack(run)
    except RecursionError:
        raise bad_request("exceeded max depth") from None
