"""The control API of a running server, under /understudy/: what a test steers that no Kubernetes API can.

POST /understudy/feature-gates   {"A": false}    turns gates on and off; answers all that are in force
POST /understudy/compact                         forgets history: older watches and continue tokens expire
POST /understudy/reset                           an empty server again; open watches end
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson

from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.scope import Api
from understudy.machinery import errors
from understudy.machinery.releases.features import UnknownGateError

PREFIX = "/understudy/"


class Control:
    """`reset` empties the server."""

    def __init__(self, api: Api, reset: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self._actions: dict[str, Callable[[Call], Awaitable[object]]] = {
            "feature-gates": self._feature_gates,
            "compact": self._compact,
            "reset": self._reset,
        }
        self._reset_server = reset

    async def answer(self, call: Call) -> Reply | None:
        """None for a path that is none of these. Raises 400, 405."""
        action = self._actions.get(call.path.removeprefix(PREFIX)) if call.path.startswith(PREFIX) else None
        if action is None:
            return None
        if call.method != "POST":
            raise errors.method_not_allowed()
        return Reply(200, orjson.dumps(await action(call)) + b"\n")

    async def _feature_gates(self, call: Call) -> object:
        try:
            changes = orjson.loads(call.body)
        except orjson.JSONDecodeError as why:
            raise errors.bad_request(f"feature gates: {why}") from None
        if not isinstance(changes, dict) or not all(isinstance(on, bool) for on in changes.values()):
            raise errors.bad_request("feature gates: want a JSON object of gates and booleans")
        try:
            self._api.gates.set(changes)
        except UnknownGateError as why:
            raise errors.bad_request(str(why)) from None
        return self._api.gates.in_force()

    async def _compact(self, call: Call) -> object:
        store = self._api.registry.store
        await store.compact(store.revision)
        return {"compactedRevision": store.revision}

    async def _reset(self, call: Call) -> object:
        await self._reset_server()
        return {}
