"""Clients inside the server's process. Their requests take the way of any other request, through every filter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from understudy.apiserver.authentication.loopback import APISERVER, LoopbackTokens
from understudy.apiserver.client.frames import Frames
from understudy.apiserver.client.kind_names import RequestError
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse, WatchSource
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError, status_error
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.options import parse_query
from understudy.machinery.types import Obj

JSON, JSON_PATCH, MERGE_PATCH = "application/json", "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

USER_AGENT = "understudy"  # of clients that tests use

Handler = Callable[[Request], Awaitable[Response | WatchResponse]]
Stop = Callable[[], None]  # ends a watch; may be called in any thread, and more than once
SendWatch = Callable[[WatchSource, Frames], Stop]  # begins to send a watch, on the event loop


class Client:
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
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Authorization": f"Bearer {token}"}

    @property
    def serving(self) -> Serving:
        """Return the kinds that the server serves now."""
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

    async def patch(
        self, path: str, changes: Any, content_type: str = MERGE_PATCH, query: Mapping[str, str] | None = None
    ) -> Obj:
        """Change an object by a patch, a merge patch (RFC 7386) by default; return it as stored. Raises StatusError."""
        return await self._request("PATCH", path, changes, content_type, query)

    async def apply(self, path: str, obj: Obj, field_manager: str) -> Obj:
        """Apply an object, taking over fields that others manage; return it as stored. Raises StatusError."""
        return await self.patch(path, obj, APPLY_PATCH, {"fieldManager": field_manager, "force": "true"})

    async def delete(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Delete an object, or the objects of a collection that the selectors in `query` match; return the answer.

        The object must have the uid and be in the resourceVersion that are named. `grace_period` is in seconds. Raises
        StatusError.
        """
        required = {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
        options = {
            "gracePeriodSeconds": grace_period,
            "preconditions": required or None,
            "propagationPolicy": propagation or None,
            "dryRun": ["All"] if dry_run else None,
        }
        body = {name: value for name, value in options.items() if value is not None}
        return await self._request("DELETE", path, body or None, JSON, query)

    async def watch(self, path: str, query: Mapping[str, str], frames: Frames) -> Stop:
        """Put the events of a watch where another thread gets them; return what ends it.

        Raises StatusError if the watch cannot begin.
        """
        answer = await self._handler(self._new_request("GET", path, b"", "", {**query, "watch": "true"}))
        if isinstance(answer, WatchResponse):
            return self._send_watch(answer.source, frames)
        raise _error(answer)

    async def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Obj:
        """Return the object that the server answers. Raises StatusError for any other answer than a success."""
        raw = b"" if body is None else encode(body)
        answer = await self._handler(self._new_request(method, path, raw, content_type, query or {}))
        assert isinstance(answer, Response)
        if answer.status >= 400:
            raise _error(answer)
        if answer.content_type != JSON:
            raise RequestError(f"{path} is not answered with an object")
        obj: Obj = loads(answer.body)
        return obj

    def _new_request(self, method: str, path: str, body: bytes, content_type: str, query: Mapping[str, str]) -> Request:
        """Return a request; parameters that are "" are left out of its query."""
        headers = {**self._headers, "Content-Type": content_type} if content_type else self._headers
        parameters = parse_query(urlencode({name: value for name, value in query.items() if value}))
        return Request(method, path, headers, body, parameters, self.serving.version, is_internal=self._is_internal)


def _error(answer: Response) -> StatusError:
    """Return the error of an answer, which is a Status unless a filter has answered in plain text."""
    if answer.content_type != JSON:
        return StatusError(answer.status, "", answer.body.decode().strip())
    return status_error(answer.status, loads(answer.body))


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
