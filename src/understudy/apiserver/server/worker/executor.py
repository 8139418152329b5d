"""Where a request is answered: on the event loop, or in a thread beside it.

    a request that                                                   begins
    writes what a webhook may have to convert between the writes     in a thread of its own
    writes anything where webhooks may authorize                     in a thread of its own
    writes, changes or deletes a large object                        in the thread for what takes long
    reads a document of OpenAPI                                      in the thread for what takes long
    is any other                                                     on the event loop

    what is needed for the first time                                takes long in a thread, before the request begins
    the plugins of admission, by any write                           to import
    the rules of a kind, by a write of it                            to import
    the key of the tokens of service accounts                        to make

    what turns out, before anything is written                       moves it
    it would wait for a webhook, on the loop                         to a thread of its own
    it recurses too deep, on the loop                                to the thread for what takes long

Large bodies of the others, such as reviews and the options of deletions, are read in the thread for what takes long,
and there large objects get a form that takes long to make, such as YAML.
Expressions of CEL move no request: those that take long are evaluated beside it, wherever it is answered (`evaluated`
of `cel.limits.interrupts`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from understudy.admission.webhooks import LoopWouldWaitError
from understudy.apiserver.endpoints.discovery.documents import OPENID_CONFIGURATION, OPENID_KEYS
from understudy.apiserver.endpoints.handlers import create, delete, patch, update
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.routing import Answer, Route
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources import binding, scale, token
from understudy.apiserver.registry.keys import key_of, prefix_of
from understudy.apiserver.server.worker.loading import is_loaded, load
from understudy.apiserver.server.worker.worker import Handle, Worker
from understudy.cel.limits.interrupts import WORK_ON_LOOP, Meter, metered
from understudy.kinds.behaviors import module_of
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.types import GroupVersionKind
from understudy.machinery.util.deep_recursion import is_limit_raised

T = TypeVar("T")
WRITES = (  # of one object
    create.create,
    update.update,
    patch.patch,
    scale.update_scale,
    scale.patch_scale,
    binding.create,
    binding.of_pod,
)
PLUGINS = "understudy.admission.plugins.ordered"
# Takes 0.2 s when it is asked for first, and after each change of a definition; a part of v3 up to 0.1 s, for each MB.
OPENAPI = ("/openapi/v2", "/openapi/v3/")
LARGE = 32 * 1024  # bytes of an object from which on a request may take long: up to some 4 ms for each KiB
LARGE_DELETED = 256 * 1024  # packed bytes of an object that it may take long to delete: 50 ms for a megabyte
LARGE_YAML = 4 * 1024  # bytes of a body in YAML: what nests in brackets takes libyaml 2 ms for the square of each KiB


class _TooDeepError(Exception):
    """A request recurses deeper than the event loop may."""


class Executor:
    """Runs the handlers of the requests to one server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._worker = Worker(state)
        self._written: set[GroupVersionKind] = set()  # the kinds whose rules are imported
        self.is_inline = False  # whether all is done in the event loop, in a simulation

    async def run(self, handle: Handle, request: Request, route: Route | None = None) -> Answer:
        """Return the answer of a handler; `route` is that of a resource, None for a page. Raises StatusError."""
        if self.is_inline:
            return await handle(self._state, request)
        request.beside = self._worker.beside
        if request.method in ("GET", "HEAD"):
            return await self._read(handle, request, route)
        if not is_loaded(PLUGINS):
            await load(PLUGINS)
        if route is not None and route.scope.kind.custom is None and route.scope.kind.stored not in self._written:
            await self._load_rules(route.scope.kind)
        if route is not None and route.handler is token.create:
            await self._make_token_key()
        if self._worker.held and route is not None and _writes_one_object(route):
            await self._worker.held.wait(_key_of(route))
        warnings = len(request.warnings)
        if self._waits_between_writes(request, route):
            return await self._worker.wait(handle, request)
        is_large = request.is_large = _has_large_body(request)
        if route is not None and self._takes_long(request, route, is_large):
            return await self._worker.answer(handle, request)
        try:
            return await self._on_loop(handle, request)
        except LoopWouldWaitError:
            del request.warnings[warnings:]
            return await self._worker.wait(handle, request)
        except _TooDeepError:
            del request.warnings[warnings:]
        alone = route is None or not _writes_one_object(route)
        return await self._worker.answer(handle, request, alone=alone)

    async def _read(self, handle: Handle, request: Request, route: Route | None) -> Answer:
        """Return the answer of a handler that writes nothing and reads no body. Raises StatusError."""
        if route is None and request.path.startswith(OPENAPI):
            return await self._worker.answer(handle, request)
        if route is None and request.path.startswith((OPENID_CONFIGURATION, OPENID_KEYS)):
            await self._make_token_key()
        warnings = len(request.warnings)
        try:
            return await handle(self._state, request)
        except LoopWouldWaitError:
            del request.warnings[warnings:]
            return await self._worker.wait(handle, request)
        except RecursionError:
            del request.warnings[warnings:]
        return await self._worker.answer(handle, request, alone=route is None)

    async def _load_rules(self, kind: Kind) -> None:
        """Import the module with the rules of a kind that is written for the first time."""
        rules = module_of(kind.group, kind.name)
        if rules is not None:
            await load(rules)
        self._written.add(kind.stored)

    async def _make_token_key(self) -> None:
        """Make the key of the tokens of service accounts, unless it is there: a new RSA key takes 0.2 s."""
        accounts = self._state.tokens.accounts
        if not accounts.has_key:
            await asyncio.to_thread(accounts.make_key)

    async def _on_loop(self, handle: Handle, request: Request) -> Answer:
        """Return the answer of a handler on the event loop. Raises LoopWouldWaitError, _TooDeepError, StatusError."""
        store = self._state.registry.store
        revision = store.revision
        try:
            with metered(Meter(most=WORK_ON_LOOP, beside=partial(self._worker.evaluate, request))):
                return await handle(self._state, request)
        except RecursionError:
            if store.revision != revision:
                raise
        raise _TooDeepError

    def _waits_between_writes(self, request: Request, route: Route | None) -> bool:
        """Report whether a request may have to wait for a conversion or an authorizer in the middle of its writes.

        It writes objects that a webhook converts, or deletes any, which policies may compare with such objects. Others
        find out before they have written anything: what they did can be done again.
        """
        if route is None:
            return False
        if self._state.asks_outside:
            return True
        if not self._state.serving.calls_webhooks:
            return False
        return route.scope.kind.watch_cache is not None or route.handler not in WRITES

    def _takes_long(self, request: Request, route: Route, is_large: bool) -> bool:
        """Report whether a request writes a large object, changes or deletes one.

        While another request recurses deep, all that write one object count: none would be found to do so, too.
        """
        is_large = is_large or is_limit_raised()
        if route.handler is delete.delete:
            entry = self._state.registry.store.peek(_key_of(route))
            return entry is not None and entry.packed_size > LARGE_DELETED
        if not (is_large or request.method in ("PUT", "PATCH")) or not _writes_one_object(route):
            return False
        if is_large:
            return True
        entry = self._state.registry.store.peek(_key_of(route))
        return entry is not None and entry.encoded_size > LARGE

    async def evaluate(self, request: Request, function: Callable[[], T]) -> T:
        """Return the result of a function that evaluates expressions for long. Raises as it does, and 504 or
        RequestTimeoutError if the time of the request is over."""
        return await self._worker.evaluate(request, function)

    async def finish(self) -> None:
        """Wait for the requests that are answered beside the event loop."""
        await self._worker.finish()


def _has_large_body(request: Request) -> bool:
    """Report whether the body of a request may take long to read."""
    size = len(request.content) if isinstance(request.content, bytes) else 0
    return size > LARGE or (size > LARGE_YAML and "yaml" in request.headers.get("Content-Type", ""))


def _key_of(route: Route) -> str:
    """Return the key of the object that a request writes; where its body names it, what all keys there begin with."""
    kind, scope = route.scope.kind, route.scope
    return key_of(kind, scope.namespace, scope.name) if scope.name else prefix_of(kind, scope.namespace)


def _writes_one_object(route: Route) -> bool:
    """Report whether requests write a single object, with what it holds: others may be answered meanwhile."""
    return route.handler in WRITES
