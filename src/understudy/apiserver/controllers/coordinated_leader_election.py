"""Elects leaders among LeaseCandidates: writes who holds, or had better hold, the Lease that they are candidates for.

    candidates       are asked whether they are there (`pingTime`), and answer (`renewTime`) within 5 seconds
    holderIdentity   becomes the best one of those that answer, if the Lease is missing, not held or expired
    preferredHolder  becomes it while another holds the Lease: that one is to give it up

The best is that with the oldest emulation version, then the oldest binary version, then the oldest object. Other
strategies than OldestEmulationVersion only get a Lease that nobody holds. It works while the gate
CoordinatedLeaderElection is on when the server starts, at one server of several, from 1.32 on.
Upstream: k8s.io/kubernetes/pkg/controlplane/controller/leaderelection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.leader_election import LeaderElector
from understudy.apiserver.controllers.framework.leases import is_expired
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.kinds.coordination.validation import semver
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import micro_timestamp, parse_timestamp
from understudy.machinery.util.timers import sleep

NAME = "leader-election-controller"
GROUP, LEASES, CANDIDATES = "coordination.k8s.io", "/registry/leases/", "/registry/leasecandidates/"
OLDEST = "OldestEmulationVersion"
# All in seconds.
AGAIN = 5.0  # until a Lease is looked at again
ANSWERS = 5.0  # for which an election waits for candidates, and for which an answer counts
LEASE_LASTS = 5  # unless it is renewed
CANDIDATE_LASTS = 1800.0
COLLECTS = 1800.0  # between two looks for candidates that are gone

log = logging.getLogger("understudy")


class ElectionError(Exception):
    """Candidates of whom none can be elected."""


class LeaderElectionController(Controller[str]):
    """Elects leaders; keys are NAMESPACE/NAME of Leases."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._context = context
        self._clock = context.state.clock
        self._client = context.clients.client(APISERVER_AGENT)
        self._is_on = (
            context.state.gates[features.COORDINATED_LEADER_ELECTION] and context.state.release.version >= V1_32
        )
        if self._is_on:
            self._leases, self._candidates = informers.of(LEASES), informers.of(CANDIDATES)
            self._leases.on_change(lambda entry: self.queue.add(entry.key.removeprefix(LEASES)))
            self._candidates.on_change(self._candidate_changed)

    async def run(self) -> None:
        """Elect leaders until cancelled, while this server is the one that does."""
        if self._is_on:
            election = self._context.coordinated_election
            await LeaderElector(self._client, self._clock, election, NAME).run(self._lead)

    async def _lead(self) -> None:
        await self._candidates.wait_for_sync()
        for entry in self._candidates.store.objects():
            self._candidate_changed(entry)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._collect_forever())

    def _candidate_changed(self, entry: Entry) -> None:
        """Look at the Lease of a candidate, unless that one was just asked: then an election goes on."""
        spec = entry.value["spec"]
        if not _is_asked(spec):
            namespace = entry.value["metadata"]["namespace"]
            self.queue.add(f"{namespace}/{spec['leaseName']}")

    async def sync(self, key: str) -> None:
        """Make the next step of an election, and look again in some seconds (`reconcileElectionStep`)."""
        namespace, _, name = key.partition("/")
        candidates = self._candidates_of(namespace, name)
        if not candidates:
            return
        now = self._clock.now()
        try:
            needs = self._needs_election(self._lease(namespace, name), candidates, now)
            if needs and not await self._is_waiting_for(candidates, now):
                await self._elect(namespace, name, [each for each in candidates if _answered(each, now)])
        except ElectionError as why:
            log.info("election of %s: %s", key, why)
            return  # until a candidate changes
        except StatusError as why:
            log.warning("election of %s: %s", key, why)
        self.queue.add_after(key, AGAIN)

    def _candidates_of(self, namespace: str, lease: str) -> list[Obj]:
        """Return the candidates for a Lease that are not gone (`listAdmissableCandidates`)."""
        entries = self._candidates.store.objects()
        objects = [entry.object for entry in entries if entry.key.startswith(f"{CANDIDATES}{namespace}/")]
        return [each for each in objects if each["spec"]["leaseName"] == lease and not self._is_gone(each)]

    def _lease(self, namespace: str, name: str) -> Obj | None:
        return self._context.state.registry.lookup(GROUP, "leases", namespace, name)

    def _needs_election(self, lease: Obj | None, candidates: list[Obj], now: float) -> bool:
        """Report whether there may be a better holder, or candidates have not answered for long (`electionNeeded`)."""
        spec = (lease or {}).get("spec") or {}
        if not spec.get("holderIdentity") or is_expired(spec, now):
            return True
        if any(_time(each, "renewTime") + CANDIDATE_LASTS / 2 < now for each in candidates):
            return True
        best = best_of(candidates) if strategy_of(candidates) == OLDEST else None
        return best is not None and best["metadata"]["name"] != spec["holderIdentity"]

    async def _is_waiting_for(self, candidates: list[Obj], now: float) -> bool:
        """Ask candidates that have not said for some time that they are there; report whether any may still answer.

        Raises StatusError.
        """
        waits = False
        for each in candidates:
            asked, is_asked = _time(each, "pingTime"), _is_asked(each["spec"])
            if is_asked and asked + ANSWERS > now:
                waits = True
            elif not _answered(each, now) and not is_asked and asked + ANSWERS < now:
                waits = True
                await self._ask(each, now)
        return waits

    async def _ask(self, candidate: Obj, now: float) -> None:
        metadata = candidate["metadata"]
        reference = self._context.reference(f"{CANDIDATES}{metadata['namespace']}/{metadata['name']}")
        if reference is not None:
            spec = {**candidate["spec"], "pingTime": micro_timestamp(now)}
            await self._client.update(reference.path, {**candidate, "spec": spec})

    async def _elect(self, namespace: str, name: str, candidates: list[Obj]) -> None:
        """Write the Lease for candidates that have answered. Raises ElectionError, StatusError."""
        if not candidates:
            raise ElectionError("no available candidates")
        strategy, path = strategy_of(candidates), resource_path(GROUP, "v1", "leases", namespace)
        best = best_of(candidates) if strategy == OLDEST else None
        now = self._clock.now()
        held: Obj = {"leaseDurationSeconds": LEASE_LASTS, "renewTime": micro_timestamp(now)}
        if best is not None:
            held["holderIdentity"] = best["metadata"]["name"]
        lease = await self._client.find(f"{path}/{name}")
        if lease is None:
            await self._client.create(path, {"metadata": {"name": name}, "spec": {"strategy": strategy, **held}})
            return
        spec = _next_spec(lease.get("spec") or {}, strategy, held, now)
        if spec != lease.get("spec"):
            await self._client.update(f"{path}/{name}", {**lease, "spec": spec})

    # --- candidates that are gone -------------------------------------------------------------------------------------

    def _is_gone(self, candidate: Obj) -> bool:
        return _time(candidate, "renewTime") + CANDIDATE_LASTS < self._clock.now()

    async def _collect_forever(self) -> None:
        """Delete candidates that have not answered for half an hour, every half hour (`LeaseCandidateGCController`)."""
        while True:
            for entry in self._candidates.store.objects():
                reference = self._context.reference(entry.key)
                if reference is not None and self._is_gone(entry.object):
                    await self._delete(reference.path, entry)
            await sleep(self._clock, COLLECTS)

    async def _delete(self, path: str, entry: Entry) -> None:
        try:
            await self._client.delete(path, resource_version=str(entry.revision))
        except StatusError as why:
            if why.code not in (404, 409):  # it is gone, or has just answered
                log.error("cannot delete a LeaseCandidate: %s", why)


def _time(candidate: Obj, field: str) -> float:
    """Return a time of a candidate in seconds since 1970, 0 for none."""
    text = candidate["spec"].get(field)
    return parse_timestamp(text) if text else 0.0


def _is_asked(spec: Obj) -> bool:
    """Report whether a candidate was asked and has not answered since."""
    asked, answered = spec.get("pingTime"), spec.get("renewTime")
    return asked is not None and answered is not None and parse_timestamp(answered) < parse_timestamp(asked)


def _answered(candidate: Obj, now: float) -> bool:
    return _time(candidate, "renewTime") + ANSWERS > now


def _precedence(candidate: Obj, field: str) -> Any:
    version = semver(candidate["spec"].get(field, ""))
    return (0, 0, 0, False, []) if version is None else version.precedence_key()


def best_of(candidates: list[Obj]) -> Obj | None:
    """Return the candidate with the oldest versions (`pickBestLeaderOldestEmulationVersion`), None if none has any."""
    versions = ("emulationVersion", "binaryVersion")
    valid = [each for each in candidates if all(semver(each["spec"].get(name, "")) for name in versions)]

    def order(each: Obj) -> Any:
        return [*(_precedence(each, name) for name in versions), each["metadata"]["creationTimestamp"]]

    return min(valid, key=order, default=None)


def strategy_of(candidates: list[Obj]) -> str:
    """Return the strategy of the newest binary (`pickBestStrategy`). Raises ElectionError if it has several."""
    newest = max(_precedence(each, "binaryVersion") for each in candidates)
    strategies = {each["spec"]["strategy"] for each in candidates if _precedence(each, "binaryVersion") == newest}
    if len(strategies) > 1:
        raise ElectionError(f"candidates at same binary version but received differing strategies {sorted(strategies)}")
    return str(strategies.pop())


def _next_spec(spec: Obj, strategy: str, held: Obj, now: float) -> Obj:
    """Return the spec of a Lease that exists, after an election. `held`: that of a Lease which the winner holds."""
    changed, holder, winner = {**spec, "strategy": strategy}, spec.get("holderIdentity"), held.get("holderIdentity")
    if winner is None or winner == holder:
        return changed
    if holder and not is_expired(spec, now):
        return {**changed, "preferredHolder": winner}
    taken = {name: value for name, value in changed.items() if name not in ("preferredHolder", "acquireTime")}
    return {**taken, **held}
