"""Deletes the dependents of what is deleted, or releases them.

An object's metadata.ownerReferences name its owners. The propagationPolicy of an owner's deletion says what becomes of
its dependents:

    Background   the owner goes at once, its dependents after it
    Foreground   the owner gets the finalizer foregroundDeletion, dependents are deleted, and the owner goes once none
                 is left that blocks it (blockOwnerDeletion)
    Orphan       the owner gets the finalizer orphan, its dependents lose their reference to it, and the owner goes

An owner has the kind, name and uid of the reference, and is in the dependent's namespace or in none. A dependent with
an owner that stays loses its references to those that do not.

The words are those of pkg/controller/garbagecollector: an owner is solid, dangling (not there) or waiting (for the
deletion of its dependents). https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from dataclasses import replace

from understudy.apiserver.controllers.controller import (
    CONTROLLER_AGENT,
    EVERYTHING,
    OWN_PREFIXES,
    ControllerContext,
    ObjectReference,
    service_account,
)
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.common.garbage_collection import FOREGROUND, ORPHAN
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.types import Obj, dataclass, split_api_version
from understudy.machinery.util.memory import gives_back, shrink

# Events own nothing and are too many (k8s.io/kubernetes/pkg/controller/garbagecollector/config); the others are what
# servers keep for themselves.
IGNORED = ("/registry/events/", *OWN_PREFIXES)


@dataclass(frozen=True, slots=True)
class Item:
    """A node of the graph: a stored object. Upstream: `node`.

    waiting  the finalizer of this controller that holds the object's deletion, "" for none
    """

    uid: str
    owners: tuple[Obj, ...]
    waiting: str

    @staticmethod
    def of(entry: Entry) -> Item:
        """Return the node of a stored object."""
        fields = entry.value["metadata"]
        return Item(fields["uid"], tuple(fields.get("ownerReferences") or ()), _waiting(fields))

    def blocks(self, uid: str) -> bool:
        """Report whether the object blocks the deletion of the owner with a uid."""
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in self.owners)


def _waiting(fields: Obj) -> str:
    held = (fields.get("finalizers") or ()) if "deletionTimestamp" in fields else ()
    return next((name for name in (ORPHAN, FOREGROUND) if name in held), "")


class UnknownOwnerError(TryAgainError):
    """An owner reference to a kind that is not served, or that the object cannot have as an owner."""


class GarbageCollector(Controller[str]):
    """Keeps the graph of owners and dependents; keys are those of the store."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._context = context
        self._state = context.state
        self._client = context.clients.client(CONTROLLER_AGENT, service_account("generic-garbage-collector"))
        self._items: dict[str, Item] = {}
        self._keys: dict[str, str] = {}  # {uid: key}
        self._dependents: dict[str, dict[str, None]] = {}  # an owner's uid: keys
        gives_back(self)
        informers.of(EVERYTHING).add_handler(
            add=self._stored,
            update=lambda _, entry: self._stored(entry),
            delete=lambda entry: self._changed(entry.key, None),
        )

    # --- the graph --------------------------------------------------------------------------------------------

    def _stored(self, entry: Entry) -> None:
        if not entry.key.startswith(IGNORED):
            self._changed(entry.key, Item.of(entry))

    def _changed(self, key: str, now: Item | None) -> None:
        """Update the graph after a write, and look at the objects whose owners or dependents changed."""
        before = self._items.get(key)
        if before is not None:
            self._forget(key, before)
            gone = now is None or now.uid != before.uid
            if gone:
                self._look_at_dependents(before.uid)
            if gone or (now is not None and now.owners != before.owners):
                for owner in before.owners:
                    self._look_at_waiting(owner["uid"])
        if now is not None:
            self._learn(key, now)
            if now.owners and (before is None or now.owners != before.owners or now.uid != before.uid):
                self.queue.add(key)
            if now.waiting and (before is None or now.waiting != before.waiting):
                self.queue.add(key)
                if now.waiting == FOREGROUND:
                    self._look_at_dependents(now.uid)

    def _learn(self, key: str, item: Item) -> None:
        self._items[key] = self._with_shared_owners(item)
        self._keys[item.uid] = key
        for owner in item.owners:
            self._dependents.setdefault(owner["uid"], {})[key] = None

    def _with_shared_owners(self, item: Item) -> Item:
        """Return an item that shares its owners with another dependent of the first one, if they are the same."""
        dependents = self._dependents.get(item.owners[0]["uid"]) if item.owners else None
        owners = self._items[next(iter(dependents))].owners if dependents else ()
        return replace(item, owners=owners) if owners == item.owners else item

    def _forget(self, key: str, item: Item) -> None:
        del self._items[key]
        self._keys.pop(item.uid, None)
        for owner in item.owners:
            dependents = self._dependents.get(owner["uid"], {})
            dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(owner["uid"], None)

    def give_back(self) -> None:
        """Drop the room of objects that are gone."""
        shrink(self._items, self._keys, self._dependents)

    def _look_at_dependents(self, uid: str) -> None:
        self.queue.add_all(self._dependents.get(uid, ()))

    def _look_at_waiting(self, uid: str) -> None:
        """Look at an owner that waits for its dependents: it may be able to go."""
        key = self._keys.get(uid)
        if key is not None and self._items[key].waiting == FOREGROUND:
            self.queue.add(key)

    # --- what is to be done -----------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Delete an object whose owners are gone, or finalize one that is being deleted."""
        reference = self._context.reference(key)
        entry = await self._state.registry.store.get(key)
        if reference is None or entry is None:
            return
        fields = entry.object["metadata"]
        with ignore_not_found():
            if "deletionTimestamp" in fields:
                await self._let_go(reference, fields)
            elif fields.get("ownerReferences"):
                await self._check_owners(reference, fields)

    async def _let_go(self, reference: ObjectReference, fields: Obj) -> None:
        """Do the work of the finalizers of an object that is being deleted, and remove them."""
        uid, waiting = fields["uid"], _waiting(fields)
        if waiting == ORPHAN:
            turns = Turns()
            for key in list(self._dependents.get(uid, ())):
                await self._orphan(key, uid)
                if turns.is_over:
                    await turns.next()
        elif waiting == FOREGROUND and await self._is_blocked(uid):
            return
        if waiting:
            kept = [name for name in fields["finalizers"] if name != waiting]
            await self._patch(reference, fields, {"finalizers": kept})

    async def _is_blocked(self, uid: str) -> bool:
        """Report whether dependents block the deletion of an owner, and look at those that are not being deleted."""
        blocked, turns = False, Turns()
        for key in list(self._dependents.get(uid, ())):
            item = self._items.get(key)
            if item is not None and item.blocks(uid):
                blocked = True
                if item.waiting != FOREGROUND:
                    self.queue.add(key)
            if turns.is_over:
                await turns.next()
        return blocked

    async def _orphan(self, key: str, owner: str) -> None:
        reference, entry = self._context.reference(key), await self._state.registry.store.get(key)
        if reference is not None and entry is not None:
            await self._drop_owners(reference, entry.object["metadata"], {owner})

    async def _check_owners(self, reference: ObjectReference, fields: Obj) -> None:
        solid, dangling, waiting = set(), set(), set()
        for owner_reference in fields["ownerReferences"]:
            owner = await self._owner(reference.namespace, owner_reference)
            if owner is None:
                dangling.add(owner_reference["uid"])
            elif _waiting(owner) == FOREGROUND:
                waiting.add(owner_reference["uid"])
            else:
                solid.add(owner_reference["uid"])
        if solid:
            await self._drop_owners(reference, fields, dangling | waiting)
            return
        dependents = self._dependents.get(fields["uid"], {})
        finalizers = fields.get("finalizers") or ()
        if waiting and dependents:
            if any(self._items[key].waiting == FOREGROUND for key in dependents):  # there may be a circle
                await self._unblock(reference, fields)
            policy = "Foreground"
        elif ORPHAN in finalizers:
            policy = "Orphan"
        else:
            policy = "Foreground" if FOREGROUND in finalizers else "Background"
        await self._client.delete(reference.path, uid=fields["uid"], propagation=policy)

    async def _owner(self, namespace: str, reference: Obj) -> Obj | None:
        """Return the metadata of an owner, None if it does not exist. Raises UnknownOwnerError."""
        group, version = split_api_version(reference["apiVersion"])
        kind = self._state.serving.kind_in(group, version, reference["kind"])
        if kind is None:
            raise UnknownOwnerError(f'no matches for kind "{reference["kind"]}" in version "{reference["apiVersion"]}"')
        if kind.namespaced and not namespace:
            raise UnknownOwnerError("cluster-scoped objects cannot refer to namespaced owners")
        entry = await self._state.registry.store.get(
            key_of(kind, namespace if kind.namespaced else "", reference["name"])
        )
        if entry is None or entry.value["metadata"]["uid"] != reference["uid"]:
            return None
        fields: Obj = entry.value["metadata"]
        return fields

    async def _drop_owners(self, reference: ObjectReference, fields: Obj, uids: set[str]) -> None:
        owners = fields.get("ownerReferences") or []
        kept = [owner for owner in owners if owner["uid"] not in uids]
        if kept != owners:
            dropped = [{"$patch": "delete", "uid": owner["uid"]} for owner in owners if owner["uid"] in uids]
            await self._patch_owners(reference, fields, dropped, kept)

    async def _unblock(self, reference: ObjectReference, fields: Obj) -> None:
        owners = [{**owner, "blockOwnerDeletion": False} for owner in fields["ownerReferences"]]
        await self._patch_owners(reference, fields, owners, owners)

    async def _patch_owners(
        self, reference: ObjectReference, fields: Obj, changes: list[Obj], owners: list[Obj]
    ) -> None:
        """Change the owners of an object: some by a strategic merge patch, or all for a kind that takes none.

        Both kinds of patch rewrite the opaque parts of an object, each in its own way, so it matters which is sent:
        a claim whose parameters would change is refused, as kube-controller-manager is, and keeps its owners.
        """
        if reference.kind.custom is None:
            patch = {"metadata": {"uid": fields["uid"], "ownerReferences": changes}}
            await self._client.patch(reference.path, patch, STRATEGIC_PATCH)
        else:
            await self._patch(reference, fields, {"ownerReferences": owners})

    async def _patch(self, reference: ObjectReference, fields: Obj, changes: Obj) -> None:
        """Change an object's metadata. Raises 409 if the object has changed since."""
        known = {"uid": fields["uid"], "resourceVersion": fields["resourceVersion"]}
        await self._client.patch(reference.path, {"metadata": {**known, **changes}})
