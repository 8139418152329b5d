"""Writes in which version each API server of a store stores a resource: StorageVersions (`internal.apiserver.k8s.io`).

With the gate StorageVersionAPI a server writes one for each built-in resource when it starts, once its identity Lease
is there, and sees to them every ten minutes. Until all are written, it refuses writes of resources whose own is missing
(`filters.limits.storage_version`). What servers whose Lease is gone have left is up to kube-controller-manager
(`storageversion-garbage-collector`).

Upstream: k8s.io/apiserver/pkg/storageversion, and the hook `built-in-resources-storage-version-updater`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping

from understudy.admission.webhooks import text_of_code
from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.replicas.identity_lease import LEASES
from understudy.apiserver.extensions.version_order import priority_key
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.serving.release import Group
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.typeinfo.unserved import registered_versions
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import Clock, timestamp
from understudy.machinery.util.timers import sleep

API_VERSION, PATH = "internal.apiserver.k8s.io/v1alpha1", "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
INTERVAL = 600.0  # seconds between two looks at all of them
LEASE, AGAIN = 0.1, 1.0  # seconds between two looks for the Lease, and before a failed write is tried again
TRIES = 3  # of a write that fails otherwise than by what another server writes
HOOK = "poststarthook/built-in-resources-storage-version-updater"
CONDITION = "AllEncodingVersionsEqual"
_AUTOSCALING = ("v2", "v1", "v2beta1", "v2beta2")  # the one group whose versions are in an order of their own
Names = tuple[str, str]  # group and resource

log = logging.getLogger("understudy")


class StorageVersion(NamedTuple):
    """The versions in which this server stores a resource, and in which it reads and serves it.

    resources  all that are stored as one: Events have two groups
    """

    resources: tuple[Names, ...]
    encoding: str
    decodable: tuple[str, ...]
    served: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the object."""
        group, resource = self.resources[0]
        return f"{group or 'core'}.{resource}"


def storage_versions(groups: Iterable[Group], schemas: Schemas) -> list[StorageVersion]:
    """Return those of all resources that are stored, by group and resource."""
    stored: dict[str, list[Kind]] = {}
    kinds = {kind for group in groups for served in group.versions.values() for kind in served}
    for kind in sorted(kinds, key=lambda kind: (kind.group, kind.resource)):
        if not kind.virtual:
            stored.setdefault(prefix_of(kind), []).append(kind)
    return [_storage_version(of_one, schemas) for of_one in stored.values()]


def _storage_version(kinds: list[Kind], schemas: Schemas) -> StorageVersion:
    """Return the StorageVersion of kinds that are stored as one."""
    first = kinds[0]
    served = [kind.gvk(version).api_version for kind in kinds for version in kind.versions]
    registered = sorted(registered_versions(schemas, first.group, first.name), key=lambda text: _order(first, text))
    decodable = dict.fromkeys([*(first.gvk(version).api_version for version in registered), *served])
    own = tuple(first.gvk(version).api_version for version in first.versions)
    return StorageVersion(
        tuple((kind.group, kind.resource) for kind in kinds), first.stored.api_version, tuple(decodable), own
    )


def _order(kind: Kind, version: str) -> tuple[int, ...] | tuple[int, int, int, int, str]:
    """Return the key that sorts versions of a group, the preferred one first (`PrioritizedVersionsForGroup`)."""
    return (_AUTOSCALING.index(version),) if kind.group == "autoscaling" else priority_key(version)


class StorageVersionManager:
    """Writes the StorageVersions of one server.

    completed  whether all have been written once
    """

    def __init__(self, versions: Iterable[StorageVersion], server: str, clock: Clock) -> None:
        self._versions = list(versions)
        self._server = server
        self._clock = clock
        self._pending = {names: "<nil>" for each in self._versions for names in each.resources}  # with the last error
        self._progress = asyncio.Event()
        self.completed = not self._versions

    def error_of(self, group: str, resource: str) -> str | None:
        """Return the last error of a resource whose StorageVersion is still to be written, "<nil>" while there was
        none; None for any other resource."""
        return self._pending.get((group, resource))

    def unfinished(self) -> Mapping[str, str]:
        """Return the health check that fails until all are written, with the reason."""
        return {} if self.completed else {HOOK: "not finished"}

    async def wait(self) -> None:
        """Wait until all are written, or one could not be."""
        await self._progress.wait()

    async def run(self, client: Verbs) -> None:
        """Write all, and keep them, until cancelled."""
        while await client.find(f"{LEASES}/{self._server}") is None:
            await asyncio.sleep(LEASE)
        while True:
            await self._update_all(client)
            await sleep(self._clock, INTERVAL)

    async def _update_all(self, client: Verbs) -> None:
        """Write all once (`UpdateStorageVersions`)."""
        has_failed = False
        for version in self._versions:
            try:
                await self._update(client, version)
            except StatusError as why:
                has_failed = True
                log.error("failed to update storage version for %s: %s", version.name, why)
            else:
                for names in version.resources:
                    self._pending.pop(names, None)
        self.completed = self.completed or not has_failed
        self._progress.set()

    async def _update(self, client: Verbs, version: StorageVersion) -> None:
        """Write one, and try again if that fails. Raises StatusError."""
        failures = 0
        while True:
            try:
                await self._update_once(client, version)
                return
            except StatusError as why:
                failures += why.reason not in ("AlreadyExists", "Conflict")
                if failures == TRIES:
                    self._fail(version, why)
                    raise
            await sleep(self._clock, AGAIN)

    def _fail(self, version: StorageVersion, why: StatusError) -> None:
        """Keep the error of one that could not be written."""
        text = f"{text_of_code(why.code, why.message)} (post storageversions.internal.apiserver.k8s.io)"
        for names in self._pending.keys() & {*version.resources}:
            self._pending[names] = why.message if why.reason else text
        self._progress.set()

    async def _update_once(self, client: Verbs, version: StorageVersion) -> None:
        """Write one. Raises StatusError."""
        path = f"{PATH}/{version.name}"
        stored = await client.find(path)
        if stored is None:
            new = {"apiVersion": API_VERSION, "kind": "StorageVersion", "metadata": {"name": version.name}, "spec": {}}
            stored = await client.create(PATH, new)
        await client.update(f"{path}/status", {**stored, "status": self._status(stored.get("status") or {}, version)})

    def _status(self, status: Obj, version: StorageVersion) -> Obj:
        """Return a status with the versions of this server (`localUpdateStorageVersion`)."""
        own = {
            "apiServerID": self._server,
            "encodingVersion": version.encoding,
            "decodableVersions": list(version.decodable),
            "servedVersions": list(version.served),
        }
        servers: list[Obj] = list(status.get("storageVersions") or ())
        known = [index for index, each in enumerate(servers) if each["apiServerID"] == self._server]
        if known:
            servers[known[0]] = own
        else:
            servers.append(own)
        return with_common_version(status, servers, timestamp(self._clock.now()))


def with_common_version(status: Obj, servers: list[Obj], now: str) -> Obj:
    """Return a status with the versions of some servers, and whether they agree (`SetCommonEncodingVersion`)."""
    versions = {each["encodingVersion"] for each in servers}
    common, before = (versions.pop() if len(versions) == 1 else None), status.get("commonEncodingVersion")
    state = "Set" if common is not None else "Unset"
    condition: Obj = {
        "type": CONDITION,
        "status": "True" if common is not None else "False",
        "lastTransitionTime": now,
        "reason": f"CommonEncodingVersion{state}",
        "message": f"Common encoding version {state.lower()}",
    }
    is_new = None not in (common, before) and common != before
    conditions = list(_conditions(status.get("conditions") or [], condition, is_new=is_new))
    common_version = {} if common is None else {"commonEncodingVersion": common}
    return {**common_version, "storageVersions": servers, "conditions": conditions}


def _conditions(conditions: list[Obj], new: Obj, *, is_new: bool) -> Iterator[Obj]:
    """Yield conditions with a new one in its place."""
    known = [each for each in conditions if each["type"] == new["type"]]
    if known and known[0]["status"] == new["status"] and not is_new:
        new = {**new, "lastTransitionTime": known[0]["lastTransitionTime"]}
    for each in conditions:
        yield new if known and each is known[0] else each
    if not known:
        yield new
