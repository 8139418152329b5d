"""Clients inside the server's process. Their requests take the way of any other request, through every filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from understudy.apiserver.authentication.loopback import APISERVER, LoopbackTokens
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.client.verbs import Query, Verbs, answered_error
from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.endpoints.negotiation import JSON
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse, WatchSource
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.auth.users import User
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.options import parse_query
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

USER_AGENT = "understudy"  # of clients that tests use
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"

Handler = Callable[[Request], Awaitable[Response | WatchResponse]]
SendWatch = Callable[[WatchSource, Frames], Stop]  # begins to send a watch, on the event loop


class Client(Verbs):
    """Sends requests as one user, with one user agent.

    is_internal  whether they are the server's own, which are not in the permission report
    """

    def __init__(
        self,
        handler: Handler,
        state: ServerState,
        send_watch: SendWatch,
        token: str,
        user_agent: str,
        *,
        is_internal: bool = True,
    ) -> None:
        self._is_internal = is_internal
        self._handler = handler
        self._send_watch = send_watch
        self._state = state
        self._headers = {"User-Agent": user_agent, "Authorization": f"Bearer {token}"}

    @property
    def serving(self) -> Serving:
        """Return the kinds that the server serves now."""
        return self._state.serving

    @property
    def gates(self) -> Gates:
        """Return the feature gates of the server."""
        return self._state.gates

    async def watch(self, path: str, query: Query, frames: Frames) -> Stop:
        """Put the events of a watch where another thread gets them; return what ends it.

        Raises StatusError if the watch cannot begin.
        """
        answer = await self._handler(self._new_request("GET", path, b"", "", {**query, "watch": "true"}))
        if isinstance(answer, WatchResponse):
            stop, on_end = self._send_watch(answer.source, frames), answer.on_end

            def end() -> None:
                stop()
                on_end()

            return end
        raise answered_error(answer.status, answer.body, loads)

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: Query | None = None
    ) -> Obj:
        raw, content_type = (b"", content_type) if body is None else (encode(body), content_type or JSON)
        return await self._object(self._new_request(method, path, raw, content_type, query or {}))

    async def table(self, path: str) -> Obj:
        """Return a collection as a Table with whole objects. Raises StatusError."""
        return await self._object(self._new_request("GET", path, b"", "", {"includeObject": "Object"}, accept=TABLE))

    async def _object(self, request: Request) -> Obj:
        """Return the object that a request is answered with. Raises StatusError."""
        answer = await self._handler(request)
        assert isinstance(answer, Response)
        if answer.delivery is not None and answer.delivery.body_bytes is not None:
            raise ConnectionResetError("a fault resets the connection")
        if answer.status >= 400:
            raise answered_error(answer.status, answer.body, loads)
        if answer.content_type != JSON:
            raise RequestError(f"{request.path} is not answered with an object")
        obj: Obj = loads(answer.body)
        return obj

    def _new_request(
        self, method: str, path: str, body: bytes, content_type: str, query: Query, accept: str = JSON
    ) -> Request:
        """Return a request; parameters that are "" are left out of its query."""
        headers = {**self._headers, "Accept": accept}
        if content_type:
            headers["Content-Type"] = content_type
        parameters = parse_query(urlencode({name: value for name, value in query.items() if value}))
        return Request(method, path, headers, body, parameters, self.serving.version, is_internal=self._is_internal)


class ClientBuilder:
    """Makes the clients of one server. Upstream: `clientbuilder.ControllerClientBuilder`."""

    def __init__(self, handler: Handler, state: ServerState, tokens: LoopbackTokens, send_watch: SendWatch) -> None:
        self._handler = handler
        self._state = state
        self._send_watch = send_watch
        self._tokens = tokens
        self._clients: dict[tuple[str, str], Client] = {}

    def client(self, user_agent: str, user: User = APISERVER) -> Client:
        """Return the client of a user and a user agent."""
        key = (user.name, user_agent)
        if key not in self._clients:
            self._clients[key] = self._client(self._tokens.issue(user), user_agent, is_internal=True)
        return self._clients[key]

    def external(self, token: str) -> Client:
        """Return a client for somebody who uses the server: its requests are as those that come from outside."""
        return self._client(token, USER_AGENT, is_internal=False)

    def _client(self, token: str, user_agent: str, *, is_internal: bool) -> Client:
        return Client(self._handler, self._state, self._send_watch, token, user_agent, is_internal=is_internal)
