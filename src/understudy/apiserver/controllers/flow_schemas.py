"""Sets the condition `Dangling` of flow schemas: whether the priority level that they name is missing.

kube-apiserver does so a moment after each write (k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go).
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.types import Obj, condition_of, nested_field

SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
MANAGER = "api-priority-and-fairness-config-consumer-v1"


class FlowSchemaController(Controller[str]):
    """Writes the condition of flow schemas; keys are the store's. A level that comes or goes concerns them all."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._context = context
        self._client = context.clients.client(APISERVER_AGENT)
        self._levels, self._schemas = informers.of(LEVELS), informers.of(SCHEMAS)  # which are listed in this order
        self._levels.add_handler(add=self._look_at_all, delete=self._look_at_all)
        self._schemas.on_change(self._look_at)

    def _look_at_all(self, _: Entry) -> None:
        self.queue.add_all(self._schemas.store.keys())

    def _look_at(self, entry: Entry) -> None:
        if self._missing(entry) is not None:
            self.queue.add(entry.key)

    async def sync(self, key: str) -> None:
        """Write the condition `Dangling` of a flow schema if it is missing or wrong."""
        entry = self._schemas.store.find(key)
        condition = None if entry is None else self._missing(entry)
        if condition is not None:
            await self._write(key, {**condition, "lastTransitionTime": self._context.state.timestamp()})

    def _missing(self, entry: Entry) -> Obj | None:
        """Return the condition that a flow schema is to have, None if it has it."""
        level = nested_field(entry.value, "spec", "priorityLevelConfiguration", "name", default="")
        condition = _dangling(level, self._levels.store.find(LEVELS + level) is not None)
        written = condition_of(entry.value, "Dangling")
        return condition if {**written, **condition} != written else None

    async def _write(self, key: str, condition: Obj) -> None:
        """Apply the condition to a flow schema, in the version that is served, if there is one."""
        if (reference := self._context.reference(key)) is not None:
            kind = reference.kind
            head = {"apiVersion": kind.gvk(kind.versions[0]).api_version, "kind": kind.name}
            await self._client.apply(
                f"{reference.path}/status", {**head, "status": {"conditions": [condition]}}, MANAGER
            )


def _dangling(level: str, exists: bool) -> Obj:
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if exists:
        return {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{named} and it exists"}
    message = f"{named} but there is no such object"
    return {"type": "Dangling", "status": "True", "reason": "NotFound", "message": message}
