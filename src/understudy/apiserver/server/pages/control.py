"""The control API of a running server, under /understudy/: changes that no Kubernetes API can make.

POST /understudy/feature-gates   {"A": false}    turns gates on and off; answers all that are in force
POST /understudy/compact                         forgets history: older watches and continue tokens expire
GET  /understudy/clock                           tells the time: {"now": "2030-01-01T00:00:00Z", "frozen": false}
POST /understudy/clock           {"advance": "1h30m"}, {"set": "2030-01-01T00:00:00Z"}, {"frozen": true} or several:
                                                 sets the clock, moves it on, lets it stand still or run; tells the time
POST /understudy/reset                           makes the server as new; open watches end
GET, POST, DELETE /understudy/faults             lists, adds and removes faults that requests meet
GET, DELETE       /understudy/faults/ID          one of them
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.machinery import errors
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.releases.features import GateDependencyError, LockedGateError, UnknownGateError
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import micro_timestamp
from understudy.machinery.util.server_clock import Steering, seconds_of

PREFIX = "/understudy/"
FAULTS = f"{PREFIX}faults"


class Control:
    """The control API of one server.

    reset     makes it as new
    steering  moves its clock
    faults    answers requests for its faults
    """

    def __init__(
        self,
        state: ServerState,
        reset: Callable[[], Awaitable[None]],
        steering: Steering,
        faults: Callable[[Request], object],
    ) -> None:
        self._state = state
        self._steering = steering
        self._faults = faults
        self._actions: dict[str, Callable[[Request], Awaitable[object]]] = {
            "feature-gates": self._feature_gates,
            "clock": self._clock,
            "compact": self._compact,
            "reset": self._reset,
        }
        self._reset_server = reset

    async def answer(self, request: Request) -> Response | None:
        """Answer a request, None for a path that is no action. Raises 400, 404, 405, 422."""
        if request.path == FAULTS or request.path.startswith(f"{FAULTS}/"):
            return _json(self._faults(request))
        action = self._actions.get(request.path.removeprefix(PREFIX)) if request.path.startswith(PREFIX) else None
        if action is None:
            return None
        if request.method != "POST" and not (request.method == "GET" and action == self._clock):
            raise errors.method_not_allowed()
        return _json(await action(request))

    async def _feature_gates(self, request: Request) -> object:
        changes = _object_of(request, "feature gates")
        if not all(isinstance(on, bool) for on in changes.values()):
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

    async def _clock(self, request: Request) -> object:
        if request.method == "POST":
            await self._steer(_object_of(request, "clock"))
        clock = self._steering.clock
        return {"now": micro_timestamp(clock.now()), "frozen": clock.is_frozen}

    async def _steer(self, changes: Obj) -> None:
        """Set the clock, move it on, and let it stand still or run, in this order. Raises 400."""
        try:
            steps = [(name, _READERS[name](changes[name])) for name in _READERS if name in changes]
            if not steps or len(steps) < len(changes):
                raise ValueError(f"want {', '.join(map(repr, _READERS))}, not {sorted(changes)}")
            frozen = changes.get("frozen", self._steering.clock.is_frozen)
        except (ValueError, RuntimeError) as why:
            raise errors.bad_request(f"clock: {why}") from None
        if frozen:
            self._steering.clock.freeze()
        for name, seconds in steps:
            if name == "set":
                await self._steering.set(seconds)
            elif name == "advance":
                await self._steering.advance(seconds)
        if not frozen:
            self._steering.clock.resume()

    async def _reset(self, request: Request) -> object:
        await self._reset_server()
        return {}


def _json(content: object) -> Response:
    return Response(200, orjson.dumps(content) + b"\n")


def _object_of(request: Request, what: str) -> Obj:
    """Return the JSON object in the body of a request. Raises 400."""
    try:
        obj = orjson.loads(request.body)
    except orjson.JSONDecodeError as why:
        raise errors.bad_request(f"{what}: {why}") from None
    if not isinstance(obj, dict):
        raise errors.bad_request(f"{what}: want a JSON object")
    return obj


def _ahead(value: object) -> float:
    """Return the seconds of a duration ahead in Go's notation. Raises ValueError."""
    nanoseconds = parse_duration(value) if isinstance(value, str) and value else None
    if nanoseconds is None or nanoseconds <= 0:
        raise ValueError(f'want a duration ahead, such as "1h30m", not {value!r}')
    return nanoseconds / 1e9


def _moment(value: object) -> float:
    """Return the seconds since 1970 of a time. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f'want a time such as "2030-01-01T00:00:00Z", not {value!r}')
    return seconds_of(value)


def _flag(value: object) -> float:
    """Return a boolean. Raises ValueError for others."""
    if not isinstance(value, bool):
        raise ValueError(f"want true or false for frozen, not {value!r}")
    return value


_READERS: dict[str, Callable[[object], float]] = {"set": _moment, "advance": _ahead, "frozen": _flag}
