"""Accepts the names of custom resource definitions, establishes them, and lets go of those that are deleted.

kube-apiserver does so a moment after each write (k8s.io/apiextensions-apiserver/pkg/controller). Names that another
definition of the group has are accepted once that one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.encoding.encoded import versioned
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.machinery.golang.text import aggregate
from understudy.machinery.types import Obj, nested_field, with_condition

PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
GROUP, RESOURCE = "apiextensions.k8s.io", "customresourcedefinitions"
# Names in the order in which they are looked at, with the reason for not accepting one.
_NAMES = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}
_KINDS = ("kind", "listKind")


def _all(names: Obj, fields: Iterable[str]) -> set[str]:
    values = (names.get(field) or "" for field in fields)
    return {text for value in values for text in (value if isinstance(value, list) else [value])}


def _accepted(definition: Obj, others: list[Obj]) -> tuple[Obj, Obj]:
    """Return the accepted names and the condition NamesAccepted. Upstream: `calculateNamesAndConditions`."""
    requested, have = (
        definition["spec"].get("names") or {},
        nested_field(definition, "status", "acceptedNames", default={}),
    )
    taken = [nested_field(other, "status", "acceptedNames", default={}) for other in [definition, *others]]
    names, reason, message = dict(have), "NoConflicts", "no conflicts found"
    for field, conflict in _NAMES.items():
        group = _KINDS if field in _KINDS else [name for name in _NAMES if name not in _KINDS]
        used = set().union(*(_all(other, group) for other in taken)) - _all(have, [field])
        clashes = [name for name in _listed(requested.get(field)) if name in used]
        if not clashes:
            names[field] = requested.get(field)
        else:
            texts = [f'"{name}" is already in use' for name in clashes]
            reason, message = conflict, aggregate(texts)
    names["categories"] = requested.get("categories")
    status = "True" if reason == "NoConflicts" else "False"
    condition = {"type": "NamesAccepted", "status": status, "reason": reason, "message": message}
    return {name: value for name, value in names.items() if value}, condition


def _listed(value: str | list[str] | None) -> list[str]:
    return value if isinstance(value, list) else [value or ""]


def _established(definition: Obj, accepted: bool, changed: bool) -> Obj | None:
    """Return the condition Established: first it is Installing, then true; None if it stays as it is.

    changed  whether the accepted names or their condition are new (upstream: the write of the naming controller, after
             which the establishing controller looks at the definition)
    """
    before = next((c for c in _conditions(definition) if c["type"] == "Established"), None)
    if before is not None and (before["status"] == "True" or not accepted):
        return None
    status, reason, message = "False", "NotAccepted", "not all names are accepted"
    if accepted:
        status, reason, message = "True", "InitialNamesAccepted", "the initial names have been accepted"
        if changed:
            status, reason = "False", "Installing"
        elif Definition(definition).has_invalid_ca_bundle:
            status, reason, message = "False", "InvalidCABundle", "The conversion webhook CABundle is invalid"
    return {"type": "Established", "status": status, "reason": reason, "message": message}


def _conditions(definition: Obj) -> list[Obj]:
    conditions: list[Obj] = nested_field(definition, "status", "conditions", default=[])
    return conditions


class DefinitionController(Controller[str]):
    """Writes the status of definitions; keys are their names.

    A definition that waits for names is looked at again with each write of another.
    """

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._context = context
        self._registry = context.state.registry
        self._client = context.clients.client(APISERVER_AGENT)
        self._waiting: set[str] = set()
        informers.of(PREFIX).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        """Look at a definition that was written, and at those that wait for another one's names."""
        self.queue.add_all((entry.key.removeprefix(PREFIX), *self._waiting))

    async def sync(self, key: str) -> None:
        """Accept the names of a definition, establish it, or finalize it if it is being deleted."""
        self._waiting.discard(key)
        entry = await self._registry.store.get(PREFIX + key)
        reference = self._context.reference(PREFIX + key)
        if entry is None or reference is None:
            return
        definition = dict(versioned(entry, reference.kind, "v1"))
        if "deletionTimestamp" in definition["metadata"]:
            from understudy.apiserver.controllers.custom_resources.definition_finalizer import finalize  # and rules

            await finalize(self._context.state, self._client, reference.path, definition)
            return
        try:
            status = self._status(definition)
        except UnreadableError:  # another one, until something is done about it
            self._waiting.add(key)
            raise
        if any((c["type"], c["status"]) == ("NamesAccepted", "False") for c in status["conditions"]):
            self._waiting.add(key)
        if status != definition["status"]:
            await self._client.update(f"{reference.path}/status", {**definition, "status": status})

    def _status(self, definition: Obj) -> Obj:
        from understudy.kinds.apiextensions.definitions import (  # all rules; few servers have definitions
            NON_STRUCTURAL,
            approval,
            structure,
        )

        now, group = self._context.state.timestamp(), definition["spec"].get("group")
        others = [
            other
            for other in self._registry.listing(GROUP, RESOURCE)
            if other["spec"].get("group") == group and other["metadata"]["name"] != definition["metadata"]["name"]
        ]
        names, accepted = _accepted(definition, others)
        names = {"plural": "", "kind": "", **names}
        conditions = _conditions(definition)
        established = _established(
            definition,
            accepted["status"] == "True",
            names != definition["status"].get("acceptedNames")
            or with_condition(conditions, accepted, now) != conditions,
        )
        structural = structure(definition, self._context.state.release.version)
        for new in (structural, approval(definition), accepted, established):
            if new is not None:
                conditions = with_condition(conditions, new, now)
        if structural is None:
            conditions = [condition for condition in conditions if condition["type"] != NON_STRUCTURAL]
        return {**definition["status"], "acceptedNames": names, "conditions": conditions}
