"""Prepares the claims of pods before they start and unprepares them after they have ended, by calling DRA drivers.

Upstream: `pkg/kubelet/cm/dra/manager.go`. Every check, its order and its words are those of the release's kubelet,
since they end in events that driver authors see. In one thing this one is stricter: while a claim is being prepared for
a pod, others that use it wait, so that a driver is never asked for the same claim twice at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.pod_claims import (
    PodClaimError,
    check_owner,
    claim_name,
    entries_of,
    is_reserved_for,
)
from understudy.controlplane.client.resources import resource_claims
from understudy.controlplane.client.store import Key
from understudy.controlplane.kubelet.dra.api import (
    PREPARE,
    UNPREPARE,
    Claim,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
)
from understudy.controlplane.kubelet.dra.claim_info import ClaimInfo, ClaimInfoCache
from understudy.controlplane.kubelet.dra.plugins import DRAPluginManager, Plugin, UnknownDriverError
from understudy.controlplane.kubelet.dra.pod_claims import extended_resource_claim, pod_claims
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_34, V1_36, V1_37, ByRelease, Version
from understudy.machinery.serializer.rpc.grpc_channel import RPCError
from understudy.machinery.types import Obj, dataclass

log = logging.getLogger(__name__)

Answer = TypeVar("Answer", PrepareResponse, UnprepareResponse)
Result = TypeVar("Result", PreparedClaim, UnpreparedClaim)


@dataclass(frozen=True)
class _Texts:
    """The error messages of a release."""

    prepare: str
    unprepare: str
    name: str
    fetch: str
    not_reserved: str
    not_allocated: str
    prepare_driver: str
    unprepare_driver: str
    rpc: str
    claim: str
    skipped: str


_TEXTS = ByRelease(
    {
        V1_31: _Texts(
            prepare="{why}",
            unprepare="{why}",
            name="{verb} resource claim: {why}",
            fetch="failed to fetch ResourceClaim {claim} referenced by pod {pod}: {why}",
            not_reserved="pod {pod}({pod_uid}) is not allowed to use resource claim {claim}({claim_uid})",
            not_allocated="locked cache operation: claim {namespace}/{claim}: {why}",
            prepare_driver="failed to get gRPC client for driver {driver}: {why}",
            unprepare_driver="get gRPC client for DRA driver {driver}: {why}",
            rpc="{method} failed: {why}",
            claim="{method} failed for claim {namespace}/{claim}: {why}",
            skipped="{method} left out {count} claims",
        ),
        V1_34: _Texts(
            prepare="prepare dynamic resources: {why}",
            unprepare="unprepare dynamic resources: {why}",
            name="{why}",
            fetch="fetch ResourceClaim {claim}: {why}",
            not_reserved="pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})",
            not_allocated="ResourceClaim {claim}: {why}",
            prepare_driver="{why}",
            unprepare_driver="{why}",
            rpc="{method}: {why}",
            claim="{method} failed for ResourceClaim {claim}: {why}",
            skipped="{method} skipped {count} ResourceClaims",
        ),
    }
)


class DRAError(Exception):
    """Claims that could not be prepared or unprepared, in the words of the kubelet's event."""


class DRAManager:
    """Knows which claims are prepared for which pods."""

    def __init__(
        self, client: APIClient, cache: ClaimInfoCache, plugins: DRAPluginManager, version: Version, gates: Gates
    ) -> None:
        self._cache = cache
        self._client = client
        self._plugins = plugins
        self._version = version
        self._gates = gates
        self._with_groups = gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]
        self._texts = _TEXTS[version]
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, pod: Obj) -> None:
        """Prepare the claims of a pod that are not prepared yet. Raises DRAError. Upstream: `PrepareResources`."""
        try:
            claims = self._claims(pod, "prepare")
            await self._refuse_unpreparing(pod, claims)
            async with self._locked(pod["metadata"]["namespace"], (name for name, _ in claims)):
                await self._prepare(pod, claims)
        except DRAError as why:
            raise DRAError(self._texts.prepare.format(why=why)) from why

    async def unprepare(self, pod: Obj) -> None:
        """Unprepare the claims that only this pod uses. Raises DRAError. Upstream: `UnprepareResources`."""
        try:
            metadata = pod["metadata"]
            names = self._cache.names_for_pod(metadata["uid"]) if self._version >= V1_37 else []
            names = names or [name for name, _ in self._claims(pod, "unprepare")]
            await self._unprepare(metadata["uid"], metadata["namespace"], names)
        except DRAError as why:
            raise DRAError(self._texts.unprepare.format(why=why)) from why

    async def reconcile(self, active_pods: set[str]) -> None:
        """Unprepare the claims of pods that are not among those with these uids. Upstream: `reconcileLoop`."""
        inactive: dict[tuple[str, str], list[str]] = {}
        for info in self._cache:
            for uid in info.pod_uids - active_pods:
                inactive.setdefault((uid, info.namespace), []).append(info.name)
        for (uid, namespace), claims in inactive.items():
            try:
                await self._unprepare(uid, namespace, claims)
            except DRAError as why:
                log.info("pod %s that is gone: %s; will retry", uid, why)

    def cdi_devices(self, pod: Obj) -> dict[str, list[str]]:
        """Return the CDI ids of the containers that have any, as a container runtime gets them.

        For a pod whose claims are prepared. Upstream: `GetResources`.
        """
        spec = pod["spec"]
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        devices = {container["name"]: list(self._container_devices(pod, container)) for container in containers}
        return {name: ids for name, ids in devices.items() if ids}

    # --- prepare

    async def _prepare(self, pod: Obj, claims: list[tuple[str, bool]]) -> None:
        """Check all claims, note that the pod uses them, and call the drivers of those that are not prepared.

        Before 1.34 a claim is noted before the next one is checked, and drivers are looked up afterwards: a pod whose
        driver never registers cannot be deleted then.
        """
        unprepared: list[ClaimInfo] = []
        checked: list[Obj] = []
        for name, is_generated in claims:
            claim = await self._check(pod, name, is_generated)
            if self._version < V1_34:
                self._note(pod, claim, unprepared)
            else:
                checked.append(claim)
                for driver in self._info_of(claim).drivers(PREPARE):
                    self._plugin(driver, self._texts.prepare_driver)
        for claim in checked:
            self._note(pod, claim, unprepared)
        for driver, infos in _by_driver(unprepared, PREPARE).items():
            await self._prepare_batch(driver, infos)
        for info in unprepared:
            info.prepared = True
            log.info("claim %s/%s: prepared by %s", info.namespace, info.name, ", ".join(info.devices))
        if unprepared:
            self._cache.save()

    async def _check(self, pod: Obj, name: str, is_generated: bool) -> Obj:
        """Return a claim of a pod from the API server, if the pod may use it. Raises DRAError."""
        metadata = pod["metadata"]
        try:
            claim = await self._client.get(resource_claims(self._version), name, metadata["namespace"])
        except (StatusError, ConnectionError) as why:
            raise DRAError(self._texts.fetch.format(claim=name, pod=metadata["name"], why=why)) from why
        if is_generated:
            try:
                check_owner(pod, claim, self._version, groups=self._with_groups)
            except PodClaimError as why:
                raise DRAError(str(why)) from why
        if not is_reserved_for(pod, claim, groups=self._with_groups):
            raise DRAError(
                self._texts.not_reserved.format(
                    pod=metadata["name"], pod_uid=metadata["uid"], claim=name, claim_uid=claim["metadata"]["uid"]
                )
            )
        return claim

    def _info_of(self, claim: Obj) -> ClaimInfo:
        try:
            return ClaimInfo.of(claim, self._gates)
        except ValueError as why:
            metadata = claim["metadata"]
            text = self._texts.not_allocated
            raise DRAError(text.format(namespace=metadata["namespace"], claim=metadata["name"], why=why)) from why

    async def _refuse_unpreparing(self, pod: Obj, claims: list[tuple[str, bool]]) -> None:
        """Refuse a pod with a claim that is being unprepared, which it need not wait for. Raises DRAError."""
        namespace = pod["metadata"]["namespace"]
        infos = [self._cache.get(namespace, name) for name, _ in claims]
        if self._version >= V1_37 and any(info is not None and info.unpreparing for info in infos):
            for claim in [await self._check(pod, name, is_generated) for name, is_generated in claims]:
                self._known_info(claim)

    def _known_info(self, claim: Obj) -> ClaimInfo | None:
        """Return the entry of a claim, None if there is none. Raises DRAError if no other pod may use it now."""
        metadata = claim["metadata"]
        info = self._cache.get(metadata["namespace"], metadata["name"])
        if info is not None and info.uid != metadata["uid"] and self._version >= V1_34:
            raise DRAError(
                f"old ResourceClaim with same name {info.name} and different UID {info.uid} still exists"
                " (previous pod force-deleted?!)"
            )
        if info is not None and info.unpreparing and self._version >= V1_37:
            raise DRAError(f"ResourceClaim {info.name} is being unprepared")
        return info

    def _note(self, pod: Obj, claim: Obj, unprepared: list[ClaimInfo]) -> None:
        """Note in memory and in the file that a pod uses a claim; append it to `unprepared` if it is not prepared."""
        info = self._known_info(claim)
        if info is None:
            info = self._info_of(claim)
            self._cache.add(info)
        info.pod_uids.add(pod["metadata"]["uid"])
        self._cache.save()
        if not info.prepared:
            unprepared.append(info)

    async def _prepare_batch(self, driver: str, infos: list[ClaimInfo]) -> None:
        """Have a driver prepare claims in one call, and keep the devices that it names. Raises DRAError.

        Before 1.36 devices are kept twice if a driver is asked twice, after a failure of another one or a restart.
        """
        plugin = self._plugin(driver, self._texts.prepare_driver)
        answers = (await self._ask(PREPARE, plugin.prepare, infos)).claims
        for info, result in self._check_answers(PREPARE, infos, answers):
            info.devices[driver] = [*(info.devices[driver] if self._version < V1_36 else ()), *result.devices]

    # --- unprepare

    async def _unprepare(self, pod_uid: str, namespace: str, claim_names: list[str]) -> None:
        async with self._locked(namespace, claim_names):
            unused: list[ClaimInfo] = []
            for name in claim_names:
                info = self._cache.get(namespace, name)
                if info is None or (self._version >= V1_37 and pod_uid not in info.pod_uids):
                    continue
                if len(info.pod_uids) > 1:
                    info.pod_uids.discard(pod_uid)
                else:  # up to 1.36 nobody asks whether the one pod that uses the claim is this one
                    info.unpreparing = True
                    unused.append(info)
            for driver, infos in _by_driver(unused, UNPREPARE).items():
                await self._unprepare_batch(driver, infos)
            for info in unused:
                self._cache.delete(info)
                log.info("claim %s/%s: unprepared by %s", info.namespace, info.name, ", ".join(info.devices))
            self._cache.save()

    async def _unprepare_batch(self, driver: str, infos: list[ClaimInfo]) -> None:
        """Have a driver unprepare claims in one call. Raises DRAError."""
        plugin = self._plugin(driver, self._texts.unprepare_driver)
        answers = (await self._ask(UNPREPARE, plugin.unprepare, infos)).claims
        for _ in self._check_answers(UNPREPARE, infos, answers):
            pass

    # --- drivers

    def _plugin(self, driver: str, text: str) -> Plugin:
        """Return the endpoint of a driver. Raises DRAError with a text."""
        try:
            return self._plugins.get(driver)
        except UnknownDriverError as why:
            raise DRAError(text.format(driver=driver, why=why)) from why

    async def _ask(
        self, method: str, call: Callable[[tuple[Claim, ...]], Awaitable[Answer]], infos: list[ClaimInfo]
    ) -> Answer:
        """Return the answer of a driver about claims. Raises DRAError."""
        try:
            return await call(tuple(info.claim for info in infos))
        except RPCError as why:
            raise DRAError(self._texts.rpc.format(method=method, why=why)) from why

    def _check_answers(
        self, method: str, infos: list[ClaimInfo], answers: Mapping[str, Result]
    ) -> Iterator[tuple[ClaimInfo, Result]]:
        """Yield claims with their answers. Raises DRAError for an error, an unknown claim, and claims left out."""
        by_uid = {info.uid: info for info in infos}
        for uid, result in answers.items():
            if uid not in by_uid:
                raise DRAError(f"{method} returned result for unknown claim UID {uid}")
            info = by_uid[uid]
            if result.error:
                raise DRAError(
                    self._texts.claim.format(method=method, namespace=info.namespace, claim=info.name, why=result.error)
                )
            yield info, result
        if len(answers) < len(infos):
            raise DRAError(self._texts.skipped.format(method=method, count=len(infos) - len(answers)))

    # --- pods

    def _claims(self, pod: Obj, verb: str) -> list[tuple[str, bool]]:
        """Return the names of a pod's claims, and whether each was generated for it. Raises DRAError."""
        try:
            return pod_claims(pod, self._gates)
        except PodClaimError as why:
            raise DRAError(self._texts.name.format(verb=verb, why=why)) from why

    @asynccontextmanager
    async def _locked(self, namespace: str, names: Iterable[str]) -> AsyncIterator[None]:
        """Lock claims against other preparations, in the order of their names, so that no task waits for ever."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                lock = self._locks.setdefault(Key(namespace, name), asyncio.Lock())
                await stack.enter_async_context(lock)
            yield

    def _container_devices(self, pod: Obj, container: Obj) -> Iterator[str]:
        """Yield the CDI ids of one container: of its claims, then of its extended resources."""
        for entry in entries_of(pod):
            for used in container.get("resources", {}).get("claims") or ():
                name, _ = claim_name(pod, entry)
                if used["name"] == entry["name"] and name is not None:
                    yield from self._devices(pod, name, used.get("request", ""))
        extended = extended_resource_claim(pod, self._gates)
        for mapping in (extended or {}).get("requestMappings") or ():
            requests = container.get("resources", {}).get("requests") or {}
            if extended and mapping["containerName"] == container["name"] and mapping["resourceName"] in requests:
                yield from self._devices(pod, extended["resourceClaimName"], mapping["requestName"])

    def _devices(self, pod: Obj, name: str, request: str) -> list[str]:
        info = self._cache.get(pod["metadata"]["namespace"], name)
        return [] if info is None else info.cdi_devices(request)


def _by_driver(infos: list[ClaimInfo], method: str) -> dict[str, list[ClaimInfo]]:
    """Return claims by the drivers that are asked for an operation."""
    batches: dict[str, list[ClaimInfo]] = {}
    for info in infos:
        for driver in info.drivers(method):
            batches.setdefault(driver, []).append(info)
    return batches
