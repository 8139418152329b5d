"""Elects a leader among several programs that do the same work, by a Lease that it renews.

    others   look every 2 to 4.4 s, and take the Lease once nobody holds it or it has not changed for 15 s
    leader   renews it every 2 s, and leads no more when it has not managed to for 10 s

How long a Lease has not changed is measured by one's own clock; the times in it are for people. Upstream:
k8s.io/client-go/tools/leaderelection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from uuid import uuid4

from understudy.apiserver.client.verbs import Verbs
from understudy.machinery.errors import StatusError
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import Clock, micro_timestamp
from understudy.machinery.util.timers import sleep, timeout

JITTER = 1.2  # how much longer others wait at the most, so that they do not look at the same time
RELEASES = 2.0  # seconds that the end of a leader waits for the Lease to be given up

log = logging.getLogger("understudy")


class Election(NamedTuple):
    """The times of an election, in seconds (upstream: `LeaderElectionConfiguration`).

    lease_duration  after which a Lease that has not changed may be taken
    renew_deadline  after which a leader that cannot renew it leads no more
    retry_period    between two tries
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaderElector:
    """Lets one program lead whenever it is elected.

    client  reads and writes the Lease
    name    that of the Lease, such as "kube-controller-manager"

    leads  whether it is the leader now
    """

    def __init__(
        self, client: Verbs, clock: Clock, election: Election, name: str, namespace: str = "kube-system"
    ) -> None:
        self._client = client
        self._clock = clock
        self._election = election
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._identity = f"{socket.gethostname()}_{uuid4()}"
        self._seen: Obj | None = None  # the spec of the Lease when it was read last
        self._changed_at = 0.0  # when it was seen to be another one than before, in monotonic seconds
        self.leads = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the work whenever elected, until cancelled; it is cancelled when another may lead.

        Ends with the work, and raises what it raises.
        """
        try:
            while True:
                await self._acquire()
                log.info("%s leads: %s", self._identity, self._name)
                working, renewing = asyncio.create_task(work()), asyncio.create_task(self._renew())
                try:
                    await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
                    if working.done():
                        working.result()
                        return
                finally:
                    for task in (working, renewing):
                        task.cancel()
                    await asyncio.gather(working, renewing, return_exceptions=True)
                self.leads = False
                log.warning("%s leads no more: %s", self._identity, self._name)
        finally:
            if self.leads:
                self.leads = False
                await self._release()

    async def _acquire(self) -> None:
        """Wait until this is the leader."""
        period = self._election.retry_period
        while not await self._try():
            await sleep(self._clock, period * (1 + JITTER * random.random()))
        self.leads = True

    async def _renew(self) -> None:
        """Renew the Lease until that fails for too long."""
        election = self._election
        while True:
            try:
                async with timeout(self._clock, election.renew_deadline):
                    while not await self._try():
                        await sleep(self._clock, election.retry_period)
            except TimeoutError:
                return
            await sleep(self._clock, election.retry_period)

    async def _try(self) -> bool:
        """Take or renew the Lease; report whether it is held by this one now (upstream: `tryAcquireOrRenew`)."""
        try:
            lease = await self._client.find(self._path)
            if lease is None:
                spec = self._spec({}, transitions=0)
                written = await self._client.create(self._collection, self._lease({"name": self._name}, spec))
            elif self._may_take(lease.get("spec") or {}):
                written = await self._client.update(self._path, {**lease, "spec": self._next(lease.get("spec") or {})})
            else:
                return False
        except (StatusError, OSError) as why:
            log.info("lease %s: %s", self._name, why)
            return False
        self._observe(written["spec"])
        return True

    def _may_take(self, spec: Obj) -> bool:
        """Look at the Lease; report whether it is one's own, nobody's, or has not changed for its time."""
        self._observe(spec)
        holder = spec.get("holderIdentity")
        return holder in (None, "", self._identity) or self._is_over(spec.get("leaseDurationSeconds") or 0)

    def _observe(self, spec: Obj) -> None:
        if spec != self._seen:
            self._seen, self._changed_at = spec, self._clock.monotonic()

    def _is_over(self, seconds: float) -> bool:
        return self._changed_at + seconds <= self._clock.monotonic()

    def _next(self, spec: Obj) -> Obj:
        """Return the spec with which the Lease is renewed or taken over."""
        transitions = spec.get("leaseTransitions") or 0
        is_own = spec.get("holderIdentity") == self._identity
        return self._spec(spec if is_own else {}, transitions=transitions if is_own else transitions + 1)

    def _spec(self, renewed: Obj, *, transitions: int) -> Obj:
        now = micro_timestamp(self._clock.now())
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._election.lease_duration),
            "acquireTime": renewed.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        """Give the Lease up, so that another need not wait; if that fails, it is over soon."""
        with suppress(StatusError, OSError):  # TimeoutError is one
            async with timeout(self._clock, RELEASES):
                lease = await self._client.find(self._path)
                if lease is not None and lease["spec"].get("holderIdentity") == self._identity:
                    spec = {**self._spec({}, transitions=lease["spec"].get("leaseTransitions") or 0)}
                    spec |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(self._path, {**lease, "spec": spec})

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._name}"

    @staticmethod
    def _lease(metadata: Obj, spec: Obj) -> Obj:
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
