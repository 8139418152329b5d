"""Sets the condition `Dangling` of flow schemas: whether the priority level that they name is missing.

kube-apiserver does so a moment after each write (k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go).
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.types import Obj, nested_field

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
MANAGER = "api-priority-and-fairness-config-consumer-v1"


class FlowSchemaController(Controller[str]):
    """Writes the condition of flow schemas; keys are their names. A change of a level concerns them all."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._context = context
        self._registry = context.state.registry
        self._client = context.clients.client(APISERVER_AGENT)
        self._schemas = informers.of(SCHEMAS)
        self._schemas.on_change(lambda entry: self.queue.add(entry.key.removeprefix(SCHEMAS)))
        informers.of(LEVELS).on_change(self._level_changed)

    def _level_changed(self, _: Entry) -> None:
        self.queue.add_all(entry.key.removeprefix(SCHEMAS) for entry in self._schemas.store.objects())

    async def sync(self, key: str) -> None:
        """Write the condition `Dangling` of a flow schema if it is missing or wrong."""
        schema = self._registry.lookup(GROUP, "flowschemas", "", key)
        if schema is None:
            return
        level = nested_field(schema, "spec", "priorityLevelConfiguration", "name", default="")
        exists = self._registry.lookup(GROUP, "prioritylevelconfigurations", "", level) is not None
        condition = _dangling(level, exists)
        dangling = [c for c in nested_field(schema, "status", "conditions", default=[]) if c.get("type") == "Dangling"]
        if not dangling or any(dangling[0].get(name) != value for name, value in condition.items()):
            await self._write(key, {**condition, "lastTransitionTime": self._context.state.timestamp()})

    async def _write(self, key: str, condition: Obj) -> None:
        """Apply the condition to a flow schema, in the version that is served, if there is one."""
        if (reference := self._context.reference(SCHEMAS + key)) is not None:
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
