"""Answers requests that may take long in a thread beside the event loop, so that others are answered meanwhile.

The event loop owns the store. What the thread reads and writes there is done on the loop, one call at a time, so others
may write between two calls: the registry's compare-and-swap sees that, and computes an update anew. The thread has a
deep stack, for requests that recurse too deep for the loop's; the loop stands still while they do, because the
recursion limit of Python is that of all threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from typing import Any

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.worker.store_on_loop import StoreOnLoop
from understudy.machinery.errors import StatusError, bad_request
from understudy.machinery.golang.deep_recursion import on_deep_stack, run_to_end, start_on_deep_stack

Handle = Callable[[ServerState, Request], Coroutine[Any, Any, Answer]]


class Worker:
    """Runs handlers of requests in a thread, one at a time: more of them would only share Python's one interpreter."""

    def __init__(self, state: ServerState) -> None:
        self._on_loop = state
        self._turn = asyncio.Lock()

    @cached_property
    def _store(self) -> StoreOnLoop:
        return StoreOnLoop(self._on_loop.registry.store, asyncio.get_running_loop())

    async def answer(self, handle: Handle, request: Request) -> Answer:
        """Return the answer of a handler that suspends for nothing but the store; 400 for one that recurses too deep.

        A client that goes away does not stop it.
        """
        await self._turn.acquire()
        state = self._on_loop.with_registry(Registry(self._store, self._on_loop.registry.resources))
        thread = start_on_deep_stack(partial(self._answer, handle, state, request), self._store.stopped_loop)
        answer = asyncio.wrap_future(thread)
        answer.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(answer)

    def _answer(self, handle: Handle, state: ServerState, request: Request) -> Answer:
        """Return the answer of a handler, in the thread. One that recurses too deep runs again with a higher limit, if
        it has not written."""
        warnings, writes = len(request.warnings), self._store.writes
        try:
            try:
                return run_to_end(handle(state, request))
            except RecursionError:
                if self._store.writes != writes:
                    raise
            del request.warnings[warnings:]
            try:
                return on_deep_stack(lambda: run_to_end(handle(state, request)))
            except RecursionError:
                raise bad_request("exceeded max depth") from None
        except StatusError as error:
            return error_response(request, error)  # here, because there may be a hundred thousand causes
