"""Sets the condition `Dangling` of flow schemas: whether the priority level that they name is missing.

kube-apiserver does so a moment after each write (k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go). Servers that
disagree about a condition write it again and again: each writes to a flow schema six times in a minute at most.
"""

from __future__ import annotations

import random
from collections import deque

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.framework.workqueue import Delays, TryAgainError
from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.errors import StatusError
from understudy.machinery.types import NamedTuple, Obj, condition_of, nested_field
from understudy.machinery.util.clock import parse_timestamp

SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
MANAGER = "api-priority-and-fairness-config-consumer-v1"
ALL = "all"  # the only key of the queue: all flow schemas are looked at together
DELAYS: Delays = 0.2, 8 * 3600.0  # conflicts are between processes, so they take some time to go away
UPDATES, PERIOD = 6, 60.0  # the most updates of a flow schema in so many seconds
PAUSES = range(30, 75)  # seconds until a flow schema that was written too often is looked at again


class Attempt(NamedTuple):
    """The flow schemas, by key, that were written together at a time. Upstream: `updateAttempt`."""

    time: float
    keys: set[str]


class FlowSchemaController(Controller[str]):
    """Writes the condition of flow schemas, all of them after a change of any, or of a priority level."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers, delays=DELAYS)
        self._context = context
        self._client = context.clients.client(APISERVER_AGENT)
        self._clock = informers.clock
        self._attempts = deque[Attempt]()  # the newest first; upstream's `mostRecentUpdates`
        self._levels, self._schemas = informers.of(LEVELS), informers.of(SCHEMAS)  # which are listed in this order
        self._levels.add_handler(add=self._look, delete=self._look)
        self._schemas.add_handler(add=self._add, update=self._look_if_changed, delete=self._look)

    def _add(self, entry: Entry) -> None:
        """Look at a new flow schema; one that a server made with its condition, at its start, counts as written."""
        self.queue.add(ALL)
        made, written = entry.value["metadata"]["creationTimestamp"], condition_of(entry.value, "Dangling")
        if made == written.get("lastTransitionTime") and self._clock.now() - parse_timestamp(made) < PERIOD:
            self._attempts.appendleft(Attempt(self._clock.monotonic(), {entry.key}))

    def _look(self, _: Entry) -> None:
        self.queue.add(ALL)

    def _look_if_changed(self, old: Entry, new: Entry) -> None:
        if any(old.value.get(field) != new.value.get(field) for field in ("spec", "status")):
            self.queue.add(ALL)

    async def sync(self, key: str) -> None:
        """Write the condition `Dangling` where it is missing or wrong. Upstream: `digestConfigObjects`.

        Raises TryAgainError if some cannot be written, or only later since they were written too often.
        """
        attempt = Attempt(self._clock.monotonic(), set())
        errors, pause, turns = list[str](), False, Turns()
        for entry in self._schemas.store.objects():
            try:
                if (condition := self._missing(entry)) is None:
                    pass
                elif self._too_often(entry.key):
                    pause = True
                else:
                    attempt.keys.add(entry.key)
                    await self._write(entry.key, condition)
            except (StatusError, ConnectionError, UnreadableError) as why:
                name = entry.key.removeprefix(SCHEMAS)
                errors.append(f"failed to set a status.condition for FlowSchema {name}: {why}")
            if turns.is_over:
                await turns.next()
        if attempt.keys:
            self._attempts.appendleft(attempt)
        if errors:
            raise TryAgainError(", ".join(errors))
        if pause:
            raise TryAgainError("written too often", random.choice(PAUSES))

    def _missing(self, entry: Entry) -> Obj | None:
        """Return the condition that a flow schema is to have, None if it has it."""
        level = nested_field(entry.value, "spec", "priorityLevelConfiguration", "name", default="")
        condition = _dangling(level, self._levels.store.find(LEVELS + level) is not None)
        written = condition_of(entry.value, "Dangling")
        return condition if {**written, **condition} != written else None

    def _too_often(self, key: str) -> bool:
        """Report whether a flow schema is not to be written now. Upstream: `shouldDelayUpdate`."""
        oldest = self._clock.monotonic() - PERIOD
        while self._attempts and self._attempts[-1].time < oldest:
            self._attempts.pop()
        return sum(key in attempt.keys for attempt in self._attempts) >= UPDATES

    async def _write(self, key: str, condition: Obj) -> None:
        """Apply the condition to a flow schema, in the version that is served, if there is one."""
        if (reference := self._context.reference(key)) is None:
            return
        kind = reference.kind
        head = {"apiVersion": kind.gvk(kind.versions[0]).api_version, "kind": kind.name}
        dated = {**condition, "lastTransitionTime": self._context.state.timestamp()}
        try:
            await self._client.apply(f"{reference.path}/status", {**head, "status": {"conditions": [dated]}}, MANAGER)
        except StatusError as why:
            if why.code != 404:  # it may have been deleted meanwhile
                raise


def _dangling(level: str, exists: bool) -> Obj:
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if exists:
        return {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{named} and it exists"}
    message = f"{named} but there is no such object"
    return {"type": "Dangling", "status": "True", "reason": "NotFound", "message": message}
