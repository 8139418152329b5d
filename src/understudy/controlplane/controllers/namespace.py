"""Empties namespaces that are being deleted.

    kubectl delete namespace a     phase Terminating, spec.finalizers [kubernetes]: nothing more can be created in it
    this controller                deletes all that is in it, and says in status.conditions what is still there
    the last object is gone        takes `kubernetes` out of spec.finalizers, by which the namespace goes

Objects with finalizers stay until somebody takes these away; pods on a node, until its kubelet deletes them.
https://github.com/kubernetes/kubernetes/tree/master/pkg/controller/namespace/deletion
"""

from __future__ import annotations

from collections import Counter

from understudy.apiserver.client.loopback import Client
from understudy.apiserver.controllers.controller import (
    CONTROLLER_AGENT,
    EVERYTHING,
    ControllerContext,
    ObjectReference,
    service_account,
)
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.encoding.encoded import versioned
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.pages import pages
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, with_condition

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


class NamespaceController(Controller[str]):
    """Empties namespaces; keys are their names.

    grace_period  seconds after the deletion of a namespace until its content is deleted (upstream:
                  `namespaceDeletionGracePeriod`, 5 seconds)
    """

    def __init__(self, context: ControllerContext, informers: StoreInformers, grace_period: float = 0.0) -> None:
        super().__init__(informers)
        self._context = context
        self._state = context.state
        self._client = context.clients.client(CONTROLLER_AGENT, service_account("namespace-controller"))
        self._grace_period = grace_period
        self._going: dict[str, float] = {}  # namespaces that are being deleted, and when their content may be
        namespaces = informers.of(NAMESPACES)
        namespaces.add_handler(self._changed, lambda _, new: self._changed(new), self._deleted)
        informers.of(EVERYTHING).on_change(self._object_changed)

    def _changed(self, entry: Entry) -> None:
        """Look at a namespace that is being deleted."""
        if "deletionTimestamp" in entry.value["metadata"]:
            name = entry.key.removeprefix(NAMESPACES)
            self._going.setdefault(name, self._context.state.clock.monotonic() + self._grace_period)
            self._add(name)

    def _add(self, name: str) -> None:
        """Look at a namespace, but not before its grace period is over."""
        self.queue.add_after(name, self._going[name] - self._context.state.clock.monotonic())

    def _deleted(self, entry: Entry) -> None:
        self._going.pop(entry.key.removeprefix(NAMESPACES), None)

    def _object_changed(self, entry: Entry) -> None:
        """Look at a namespace that had an object written while it is being deleted."""
        if self._going and (namespace := entry.value["metadata"].get("namespace", "")) in self._going:
            self._add(namespace)

    async def sync(self, key: str) -> None:
        """Delete the content of a namespace that is being deleted, and remove its finalizer once it is empty."""
        entry = await self._state.registry.store.get(NAMESPACES + key)
        if entry is None or "deletionTimestamp" not in entry.value["metadata"]:
            return
        if not (entry.value.get("spec") or {}).get("finalizers"):
            return
        reference = self._context.reference(entry.key)
        assert reference is not None
        emptying = _Emptying(self._context, self._client, key)
        await emptying.run(ordered=self._state.gates[features.ORDERED_NAMESPACE_DELETION])
        conditions = emptying.conditions((entry.value.get("status") or {}).get("conditions") or [])
        if conditions is not None:
            namespace = await self._current(reference)
            namespace["status"] = {**namespace["status"], "conditions": conditions}
            await self._client.update(f"{reference.path}/status", namespace)  # its role allows no PATCH
        if emptying.failures:
            raise emptying.failures[0]
        if not emptying.remaining:
            await self._finalize(reference)

    async def _finalize(self, reference: ObjectReference) -> None:
        namespace = await self._current(reference)
        kept = [name for name in namespace["spec"]["finalizers"] if name != FINALIZER]
        if kept != namespace["spec"]["finalizers"]:
            namespace["spec"] = {**namespace["spec"], "finalizers": kept}
            await self._client.update(f"{reference.path}/finalize", namespace)

    async def _current(self, reference: ObjectReference) -> Obj:
        """Return a copy of a namespace as it is stored now; what is in it is shared."""
        entry = await self._state.registry.get(reference.kind, "", reference.name)
        return dict(versioned(entry, reference.kind, "v1"))


class _Emptying:
    """One attempt to delete everything in a namespace, with its results.

    remaining   how many objects of each kind are left
    finalizers  how many objects each finalizer holds
    failures    the errors of deletions
    """

    def __init__(self, context: ControllerContext, client: Client, namespace: str) -> None:
        self._context = context
        self._client = client
        self._namespace = namespace
        self.remaining: dict[Kind, int] = {}
        self.finalizers: Counter[str] = Counter()
        self.failures: list[StatusError] = []

    async def run(self, *, ordered: bool) -> None:
        """Delete everything, pods first. If `ordered`, delete nothing else while there are pods."""
        kinds = [kind for kind in self._context.kinds().values() if kind.namespaced]
        kinds.sort(key=lambda kind: kind.resource != "pods")
        for kind in kinds:
            await self._delete(kind)
            if ordered and kind.resource == "pods" and self.remaining:
                return

    async def _delete(self, kind: Kind) -> None:
        store, prefix, turns = self._context.state.registry.store, prefix_of(kind, self._namespace), Turns()
        if not store.count(prefix):
            return
        async for page in pages(store, prefix):
            for entry in page:
                if turns.is_over:
                    await turns.next()
                fields = entry.value["metadata"]
                try:
                    path = ObjectReference(kind, self._namespace, fields["name"]).path
                    await self._client.delete(path, uid=fields["uid"], propagation="Background")
                except StatusError as error:
                    if error.code not in (404, 409):
                        self.failures.append(error)
                        return  # as DELETE of a collection does; nothing more is said about the kind
        async for page in pages(store, prefix):
            self.remaining[kind] = self.remaining.get(kind, 0) + len(page)
            for entry in page:
                self.finalizers.update(entry.value["metadata"].get("finalizers") or ())

    def conditions(self, before: list[Obj]) -> list[Obj] | None:
        """Return the new status.conditions, None if they do not change."""
        wrong = self._wrong()
        now = self._context.state.timestamp()
        after = before
        for type_, *well in CONDITIONS:
            reason, message = wrong.get(type_, well)
            status = "True" if type_ in wrong else "False"
            new = {"type": type_, "status": status, "reason": reason, "message": message}
            after = with_condition(after, new, now)
        return None if after == before else after

    def _wrong(self) -> dict[str, tuple[str, str]]:
        """Return (reason, message) of the conditions that are true, by type."""
        wrong = {}
        if self.failures:
            texts = ", ".join(sorted(error.message for error in self.failures))
            message = f"Failed to delete all resource types, {len(self.failures)} remaining: {texts}"
            wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.remaining:
            kinds = sorted(f"{k.resource}.{k.group} has {n} resource instances" for k, n in self.remaining.items())
            message = f"Some resources are remaining: {', '.join(kinds)}"
            wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
        if self.finalizers:
            names = sorted(f"{name} in {n} resource instances" for name, n in self.finalizers.items())
            message = f"Some content in the namespace has finalizers remaining: {', '.join(names)}"
            wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return wrong
