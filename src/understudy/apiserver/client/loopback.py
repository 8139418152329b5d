"""Clients inside the server's process. Their requests take the way of any other request, through every filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from understudy.apiserver.authentication.loopback import APISERVER, LoopbackTokens
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.options import parse_query
from understudy.machinery.types import Obj
from understudy.machinery.users import User

JSON, MERGE_PATCH, APPLY_PATCH = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

USER_AGENT = "understudy"  # of clients that tests use

Handler = Callable[[Request], Awaitable[Response | WatchResponse]]


class Client:
    """Sends requests as one user, with one user agent.

    is_internal  whether they are the server's own, which are not in the permission report
    """

    def __init__(
        self, handler: Handler, state: ServerState, token: str, user_agent: str, *, is_internal: bool = True
    ) -> None:
        self._is_internal = is_internal
        self._handler = handler
        self._state = state
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Authorization": f"Bearer {token}"}

    @property
    def serving(self) -> Serving:
        """Return what the server serves."""
        return self._state.serving

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Obj:
        """Return an object or a list. Raises StatusError."""
        return await self._request("GET", path, query=query)

    async def create(self, path: str, obj: Obj, query: Mapping[str, str] | None = None) -> Obj:
        """Create an object in the collection at a path; return it as stored. Raises StatusError."""
        return await self._request("POST", path, obj, JSON, query)

    async def update(self, path: str, obj: Obj, query: Mapping[str, str] | None = None) -> Obj:
        """Replace an object; return it as stored. Raises StatusError."""
        return await self._request("PUT", path, obj, JSON, query)

    async def patch(self, path: str, changes: Obj, content_type: str = MERGE_PATCH) -> Obj:
        """Change an object by a merge patch (RFC 7386) or another one; return it as stored. Raises StatusError."""
        return await self._request("PATCH", path, changes, content_type)

    async def apply(self, path: str, obj: Obj, field_manager: str, query: Mapping[str, str] | None = None) -> Obj:
        """Apply an object, taking over fields that others manage; return it as stored. Raises StatusError."""
        options = {"fieldManager": field_manager, "force": "true", **(query or {})}
        return await self._request("PATCH", path, obj, APPLY_PATCH, options)

    async def delete(self, path: str, *, uid: str = "", propagation: str = "") -> None:
        """Delete an object: the one with a uid, with a propagation policy. Raises StatusError."""
        options: Obj = {"preconditions": {"uid": uid}} if uid else {}
        if propagation:
            options["propagationPolicy"] = propagation
        await self._request("DELETE", path, options or None, JSON)

    async def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Obj:
        """Return the object that the server answers. Raises StatusError for any other answer than a success."""
        headers = {**self._headers, "Content-Type": content_type} if content_type else self._headers
        raw = b"" if body is None else encode(body)
        text = urlencode({name: value for name, value in (query or {}).items() if value})
        release, internal = self.serving.version, self._is_internal
        request = Request(method, path, headers, raw, parse_query(text), release, is_internal=internal)
        answer = await self._handler(request)
        assert isinstance(answer, Response)
        obj: Obj = loads(answer.body)
        if answer.status >= 400:
            raise StatusError(answer.status, obj.get("reason", ""), obj.get("message", ""), obj.get("details"))
        return obj


class ClientBuilder:
    """Makes the clients of one server. Upstream: `clientbuilder.ControllerClientBuilder`."""

    def __init__(self, handler: Handler, state: ServerState, tokens: LoopbackTokens) -> None:
        self._handler = handler
        self._state = state
        self._tokens = tokens
        self._clients: dict[tuple[str, str], Client] = {}

    def client(self, user_agent: str, user: User = APISERVER) -> Client:
        """Return the client of a user and a user agent."""
        key = (user.name, user_agent)
        if key not in self._clients:
            self._clients[key] = Client(self._handler, self._state, self._tokens.issue(user), user_agent)
        return self._clients[key]

    def external(self, token: str) -> Client:
        """Return a client for somebody who uses the server: its requests are as those that come from outside."""
        return Client(self._handler, self._state, token, USER_AGENT, is_internal=False)
