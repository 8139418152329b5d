"""The claims as the scheduler sees them: what the server says, what was just written, and what is about to be.

A claim whose devices have been chosen is *pending* until its allocation is written: others see it without an allocation
and wait, but its devices are in use. So no device is given away twice. Upstream: `claimTracker`, `assumecache`.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.machinery.types import Obj


class ClaimTracker:
    """Holds the newest state of each claim, and counts the devices in use.

    allocated  the devices in use; kept up to date with every change
    """

    def __init__(self, allocated: AllocatedState) -> None:
        self.allocated = allocated
        self._claims: dict[tuple[str, str], Obj] = {}
        self._pending: dict[str, Obj] = {}
        self._sharers: dict[str, int] = {}  # how many pods wait for a pending claim, by its uid
        self._counted: dict[str, Obj] = {}

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return a claim, None if there is none."""
        return self._claims.get((namespace, name))

    def all(self) -> Iterator[Obj]:
        """Yield all claims."""
        yield from self._claims.values()

    def put(self, claim: Obj) -> None:
        """Take in a claim that the server has sent, in a watch or as an answer, unless a newer state is known."""
        key = _key(claim)
        known = self._claims.get(key)
        if known is not None and _uid(known) == _uid(claim) and _version(known) >= _version(claim):
            return
        if known is not None and _uid(known) != _uid(claim):
            self.remove(known)
        self._claims[key] = claim
        self._count(_uid(claim), claim)

    def remove(self, claim: Obj) -> None:
        """Forget a claim that is gone."""
        known = self._claims.get(_key(claim))
        if known is not None and _uid(known) == _uid(claim):
            del self._claims[_key(claim)]
        self._count(_uid(claim), None)

    def is_pending(self, uid: str) -> bool:
        """Report whether the allocation of a claim is about to be written. Upstream: `ClaimHasPendingAllocation`."""
        return uid in self._pending

    def pending_allocation(self, uid: str) -> Obj | None:
        """Return the allocation of a claim that is about to be written, None if there is none."""
        return _allocation(self._pending[uid]) if uid in self._pending else None

    def add_pending(self, claim: Obj) -> None:
        """Take the devices of a claim whose allocation is about to be written, for one more pod.

        Upstream: `SignalClaimPendingAllocation`.
        """
        uid = _uid(claim)
        self._sharers[uid] = self._sharers.get(uid, 0) + 1
        if uid not in self._pending:
            self._pending[uid] = claim
            self._count(uid, self._claims.get(_key(claim)))

    def remove_pending(self, claim: Obj, *, for_all: bool = False) -> bool:
        """End what `add_pending` began, for one pod; return whether there was anything to end.

        for_all  whether it ends for all pods, since the allocation has been written
        """
        uid = _uid(claim)
        if uid not in self._pending:
            return False
        self._sharers[uid] -= 1
        if self._sharers[uid] and not for_all:
            return False
        del self._sharers[uid], self._pending[uid]
        current = self._claims.get(_key(claim))
        self._count(_uid(claim), current if current is not None and _uid(current) == _uid(claim) else None)
        return True

    def _count(self, uid: str, claim: Obj | None) -> None:
        """Count the devices of a claim instead of those that were counted for it before."""
        counts = claim if claim is not None and _allocation(claim) else self._pending.get(uid)
        before = self._counted.get(uid)
        if before is not None and counts is not None and _allocation(before) == _allocation(counts):
            return
        if before is not None:
            self.allocated.remove(self._counted.pop(uid))
        if counts is not None:
            self.allocated.add(counts)
            self._counted[uid] = counts


def _key(claim: Obj) -> tuple[str, str]:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]


def _uid(claim: Obj) -> str:
    return str(claim["metadata"]["uid"])


def _version(claim: Obj) -> int:
    return int(claim["metadata"]["resourceVersion"])


def _allocation(claim: Obj) -> Obj | None:
    return (claim.get("status") or {}).get("allocation")
