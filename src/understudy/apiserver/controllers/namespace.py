"""Empties namespaces that are being deleted.

    kubectl delete namespace a     phase Terminating, spec.finalizers [kubernetes]: nothing more can be created in it
    this controller                deletes all that is in it, and says in status.conditions what is still there
    the last object is gone        takes `kubernetes` out of spec.finalizers, by which the namespace goes

Objects with finalizers stay until somebody takes these away, and pods that are on a node until its kubelet (or who acts
as one) deletes them. https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/namespace/deletion
"""

from __future__ import annotations

from collections import Counter

from understudy.apiserver.controllers.access import Access, Place, account
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.registry.encoded import versioned
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry, Event
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

FINALIZER = "kubernetes"
NAMESPACES = "/registry/namespaces/"
# Conditions in their order, with what each says when nothing is wrong: (type, reason, message).
CONDITIONS = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
)


class NamespaceController:
    """`todo` holds names of namespaces."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._access = Access(state, account("namespace-controller"))
        self._going: set[str] = set()
        self.todo: dict[str, None] = {}

    def begin(self, entries: list[Entry]) -> None:
        self._going.clear()
        self.todo.clear()
        for entry in entries:
            self.observe(Event(False, entry, None))

    def observe(self, event: Event) -> None:
        entry = event.entry
        if entry.key.startswith(NAMESPACES):
            name = entry.key.removeprefix(NAMESPACES)
            if event.deleted or "deletionTimestamp" not in entry.value["metadata"]:
                self._going.discard(name)
            else:
                self._going.add(name)
                self.todo[name] = None
        elif self._going:
            namespace = entry.value["metadata"].get("namespace", "")
            if namespace in self._going:
                self.todo[namespace] = None

    async def sync(self, key: str) -> None:
        entry = await self._state.registry.store.get(NAMESPACES + key)
        if entry is None or "deletionTimestamp" not in entry.value["metadata"]:
            return
        if not (entry.value.get("spec") or {}).get("finalizers"):
            return
        place = self._access.place(entry.key)
        assert place is not None
        emptying = _Emptying(self._access, key)
        await emptying.run(ordered=self._state.gates[features.ORDERED_NAMESPACE_DELETION])
        conditions = emptying.conditions((entry.value.get("status") or {}).get("conditions") or [])
        if conditions is not None:
            await self._access.patch(place, {"status": {"conditions": conditions}}, "status")
        if emptying.failures:
            raise emptying.failures[0]
        if not emptying.remaining:
            await self._finalize(place)

    async def _finalize(self, place: Place) -> None:
        namespace = dict(versioned(await self._state.registry.get(place.kind, "", place.name), place.kind, "v1"))
        kept = [name for name in namespace["spec"]["finalizers"] if name != FINALIZER]
        if kept != namespace["spec"]["finalizers"]:
            namespace["spec"] = {**namespace["spec"], "finalizers": kept}
            await self._access.update(place, namespace, "finalize")


class _Emptying:
    """One try to delete everything in a namespace, and what it found."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access = access
        self._namespace = namespace
        self.remaining: dict[Kind, int] = {}
        self.finalizers: Counter[str] = Counter()
        self.failures: list[StatusError] = []

    async def run(self, *, ordered: bool) -> None:
        """Pods first. `ordered`: and nothing else while there are any."""
        kinds = [kind for kind in self._access.kinds().values() if kind.namespaced]
        kinds.sort(key=lambda kind: kind.resource != "pods")
        for kind in kinds:
            await self._delete(kind)
            if ordered and kind.resource == "pods" and self.remaining:
                return

    async def _delete(self, kind: Kind) -> None:
        registry = self._access.state.registry
        for entry in await registry.all(kind, self._namespace):
            fields = entry.value["metadata"]
            try:
                await self._access.delete(Place(kind, self._namespace, fields["name"]), fields["uid"], "Background")
            except StatusError as error:
                if error.code not in (404, 409):
                    self.failures.append(error)
        left = await registry.all(kind, self._namespace)
        if left:
            self.remaining[kind] = len(left)
            for entry in left:
                self.finalizers.update(entry.value["metadata"].get("finalizers") or ())

    def conditions(self, before: list[Obj]) -> list[Obj] | None:
        """What status.conditions become; None: what they are."""
        wrong = self._wrong()
        now = self._access.state.timestamp()
        said = {condition["type"]: condition for condition in before}
        for type_, reason, message in CONDITIONS:
            status = "True" if type_ in wrong else "False"
            reason, message = wrong.get(type_, (reason, message))
            old = said.get(type_)
            since = old["lastTransitionTime"] if old and old["status"] == status else now
            said[type_] = {
                "type": type_,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        after = list(said.values())
        return None if after == before else after

    def _wrong(self) -> dict[str, tuple[str, str]]:
        """(reason, message) by type."""
        found = {}
        if self.failures:
            texts = ", ".join(sorted(error.message for error in self.failures))
            message = f"Failed to delete all resource types, {len(self.failures)} remaining: {texts}"
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.remaining:
            kinds = sorted(f"{k.resource}.{k.group} has {n} resource instances" for k, n in self.remaining.items())
            message = f"Some resources are remaining: {', '.join(kinds)}"
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
        if self.finalizers:
            names = sorted(f"{name} in {n} resource instances" for name, n in self.finalizers.items())
            message = f"Some content in the namespace has finalizers remaining: {', '.join(names)}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found
