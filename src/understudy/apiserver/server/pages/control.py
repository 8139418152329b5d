"""The control API of a running server, under /understudy/: changes that no Kubernetes API can make.

POST /understudy/feature-gates   {"A": false}    turns gates on and off; answers all that are in force
POST /understudy/compact                         forgets history: older watches and continue tokens expire
POST /understudy/reset                           makes the server as new; open watches end
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.machinery import errors
from understudy.machinery.releases.features import GateDependencyError, LockedGateError, UnknownGateError

PREFIX = "/understudy/"


class Control:
    """The control API of one server; `reset` makes it as new."""

    def __init__(self, state: ServerState, reset: Callable[[], Awaitable[None]]) -> None:
        self._state = state
        self._actions: dict[str, Callable[[Request], Awaitable[object]]] = {
            "feature-gates": self._feature_gates,
            "compact": self._compact,
            "reset": self._reset,
        }
        self._reset_server = reset

    async def answer(self, request: Request) -> Response | None:
        """Answer a request, None for a path that is no action. Raises 400, 405."""
        action = self._actions.get(request.path.removeprefix(PREFIX)) if request.path.startswith(PREFIX) else None
        if action is None:
            return None
        if request.method != "POST":
            raise errors.method_not_allowed()
        return Response(200, orjson.dumps(await action(request)) + b"\n")

    async def _feature_gates(self, request: Request) -> object:
        try:
            changes = orjson.loads(request.body)
        except orjson.JSONDecodeError as why:
            raise errors.bad_request(f"feature gates: {why}") from None
        if not isinstance(changes, dict) or not all(isinstance(on, bool) for on in changes.values()):
            raise errors.bad_request("feature gates: want a JSON object of gates and booleans")
        try:
            self._state.gates.set(changes)
        except (UnknownGateError, LockedGateError, GateDependencyError) as why:
            raise errors.bad_request(str(why)) from None
        return self._state.gates.in_force()

    async def _compact(self, request: Request) -> object:
        store = self._state.registry.store
        await store.compact(store.revision)
        return {"compactedRevision": store.revision}

    async def _reset(self, request: Request) -> object:
        await self._reset_server()
        return {}
