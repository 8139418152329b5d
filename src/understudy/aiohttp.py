"""An aiohttp application that serves the API, for tests of aiohttp's kind and for mounting into other applications.

app = understudy.aiohttp.application(emulated_version="1.34", load=["gpu-cluster"])
client = await aiohttp_client(app)                   # of pytest-aiohttp
await client.get("/api/v1/nodes")
app[SERVER].wait_for("pods", "p", "Ready")           # the `Server` behind it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, ParamSpec, TypeVar

from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE

from understudy.apiserver.server.http.aiohttp_exchange import respond
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.head import MAX_HEAD
from understudy.controlplane.server import Server

__all__ = ["SERVER", "application"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
SERVER = web.AppKey("understudy.server", Server)
# aiohttp's own limits, which are narrower than Go's, as far as it lets applications widen them.
_LIMITS = {"max_line_size": MAX_HEAD, "max_field_size": MAX_HEAD, "max_headers": 1 << 15, "auto_decompress": False}
_PATH = "/{path:(?s:.*)}"


class _ServerOfApplication(Server):
    """A server that answers the requests of an application as well as those to its own port."""

    @property
    def is_running(self) -> bool:
        """Report whether the server runs, and is not about to stop."""
        return self._thread is not None

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine in the thread of the server."""
        if self._thread is None:
            coroutine.close()
            raise web.HTTPServiceUnavailable(text="the server is not running")
        return self._thread.begin(coroutine)

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request, in the thread of the server."""
        await self._lifecycle.handle(exchange)


def _with_options_of(
    server: Callable[P, T],
) -> Callable[[Callable[[T], web.Application]], Callable[P, web.Application]]:
    """Let a function that takes a server take the server's options instead."""

    def decorate(make: Callable[[T], R]) -> Callable[P, R]:
        def make_from_options(*args: P.args, **options: P.kwargs) -> R:
            return make(server(*args, **options))

        make_from_options.__name__, make_from_options.__doc__ = make.__name__, make.__doc__
        make_from_options.__signature__ = inspect.signature(server)  # type: ignore[attr-defined]
        return make_from_options

    return decorate


@_with_options_of(_ServerOfApplication)
def application(server: _ServerOfApplication) -> web.Application:
    """Return an application that serves the API; its keyword arguments are those of `Server`.

    It answers as the server does: watches, WebSockets and faults too. `application(…)[SERVER]` is the `Server`, which
    starts and ends with the application, in a thread of its own; it has its own port too, for kubectl and controllers.
    Mounted with `add_subapp("/k8s", …)`, it strips the prefix. Middlewares of your own go into `.middlewares`.

    Raises ValueError for options that make no sense.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        resource = request.match_info.route.resource
        depth = 1 if resource is None else resource.canonical.count("/")
        return await respond(server, request, "/" + request.raw_path.split("/", depth)[-1])

    running = AsyncExitStack()

    async def start(_: web.Application) -> None:
        await running.enter_async_context(server)

    async def stop(_: web.Application) -> None:
        await running.aclose()

    app = web.Application(client_max_size=0, handler_args=_LIMITS)
    app[SERVER] = server
    app.router.add_route("*", _PATH, answer, expect_handler=_leave_to_server)
    app.on_response_prepare.append(_remove_signature)
    app.on_startup.append(start)
    app.on_shutdown.append(stop)  # which ends watches; aiohttp waits for them before it cleans up
    app.on_cleanup.append(stop)
    return app


async def _leave_to_server(_: web.Request) -> None:
    """Do nothing about `Expect`: the server asks for a body when it wants one."""


async def _remove_signature(_: web.Request, response: web.StreamResponse) -> None:
    """Remove the header that aiohttp adds, which kube-apiserver does not have."""
    if response.headers.get("Server") == SERVER_SOFTWARE:
        del response.headers["Server"]
