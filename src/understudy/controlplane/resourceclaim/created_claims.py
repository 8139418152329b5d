"""Claims that the controller has made, remembered until its informer has seen them. Upstream: `cache.MutationCache`."""

from __future__ import annotations

import time
from collections.abc import Callable

from understudy.controlplane.client.pod_claims import is_owned_by_group, owning_pod
from understudy.controlplane.client.store import Key, Store, key_of
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, controller_of

MOST = ByRelease({V1_37: 1000, V1_31: 100})  # how many are remembered
SECONDS = 3600.0  # for which they are remembered
OWNER = "owner"  # the index of claims by the uid of what they were made for


def owner_uids(claim: Obj) -> list[str]:
    """Return the uid of the pod or the group that a claim was made for, in a list for an index."""
    owner = controller_of(claim) if is_owned_by_group(claim) else owning_pod(claim)
    return [owner["uid"]] if owner is not None else []


class CreatedClaims:
    """Finds claims by their owner, those included that the informer does not know yet.

    A claim that is deleted before anybody asked for it after its creation is remembered as well: the controller goes on
    as if it were there, for an hour. The real one does so too.
    """

    def __init__(self, store: Store, version: Version, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._most = MOST[version]
        self._clock = clock
        self._created: dict[Key, tuple[Obj, float]] = {}
        store.add_index(OWNER, owner_uids)

    def add(self, claim: Obj) -> None:
        """Remember a claim that was made just now; the oldest is forgotten if there are too many."""
        key = key_of(claim)
        self._created.pop(key, None)
        self._created[key] = claim, self._clock() + SECONDS
        if len(self._created) > self._most:
            del self._created[next(iter(self._created))]

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return a claim, None if it is neither known to the informer nor made just now. Upstream: `GetByKey`."""
        key = Key(namespace, name)
        known = self._store.find(key)
        if known is not None:
            self._forget_older(known)
            return known
        claim, until = self._created.get(key, (None, 0.0))
        return claim if until > self._clock() else None

    def of_owner(self, uid: str) -> list[Obj]:
        """Return the claims that were made for an owner. What the informer has by now is not remembered any longer."""
        known = self._store.by_index(OWNER, uid)
        for claim in known:
            self._forget_older(claim)
        seen = {key_of(claim) for claim in known}
        now = self._clock()
        created = [claim for key, (claim, until) in self._created.items() if key not in seen and until > now]
        return [*known, *(claim for claim in created if uid in owner_uids(claim))]

    def _forget_older(self, known: Obj) -> None:
        """Forget a claim that the informer has, as old or newer."""
        key = key_of(known)
        if key in self._created and _version(known) >= _version(self._created[key][0]):
            del self._created[key]


def _version(claim: Obj) -> int:
    return int(claim["metadata"]["resourceVersion"])
