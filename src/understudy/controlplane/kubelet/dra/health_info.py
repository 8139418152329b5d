"""The health of devices as drivers report it, and its place in the status of containers (1.34 and later).

Upstream: `pkg/kubelet/cm/dra/healthinfo.go`, `UpdateAllocatedResourcesStatus`. Gates: ResourceHealthStatus, and
ResourceHealthStatusMessage for messages. What changes is kept in a file (`health_state`), so that a kubelet that is
started again knows it until drivers report again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from understudy.controlplane.client.pod_claims import PodClaimError, claim_name, entries_of
from understudy.controlplane.kubelet.dra.api import DeviceHealth, HealthStatus, WatchResourcesResponse
from understudy.controlplane.kubelet.dra.claim_info import ClaimInfo, ClaimInfoCache
from understudy.controlplane.kubelet.dra.health_state import (
    DEFAULT_TIMEOUT,
    Health,
    Report,
    read_health_state,
    write_health_state,
)
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 1024
MOST_DEVICES = ByRelease({V1_31: sys.maxsize, V1_37: 16384})  # of a driver whose health is kept
_NAMES = {HealthStatus.HEALTHY: "Healthy", HealthStatus.UNHEALTHY: "Unhealthy"}


class DeviceHealthCache:
    """The health of the devices of a node, read from a file when it is made.

    root     folder of the file
    changed  is called with the uids of the pods whose status has to be written again
    """

    def __init__(
        self, root: Path, claims: ClaimInfoCache, version: Version, gates: Gates, clock: Clock,
        changed: Callable[[set[str]], None],
    ) -> None:  # fmt: skip
        self._root = root
        self._claims = claims
        self._version = version
        self._gates = gates
        self._clock = clock
        self._changed = changed
        self._reports = read_health_state(root)
        self._closed = False

    def close(self) -> None:
        """Leave the file as it is, for the next kubelet."""
        self._closed = True

    async def follow(self, driver: str, stream: AsyncIterator[WatchResourcesResponse]) -> None:
        """Take in what a driver reports until the stream ends; then nothing is known of its devices any more.

        Raises RPCError.
        """
        try:
            async for response in stream:
                changed = self._take(driver, response.devices)
                pods = {
                    uid
                    for info in self._claims
                    if any((d.pool_name, d.device_name) in changed for d in info.devices.get(driver, ()))
                    for uid in info.pod_uids
                }
                if pods:
                    self._changed(pods)
        finally:
            self._reports.pop(driver, None)
            self._save()

    def allocated_resources_status(self, pod: Obj, container: Obj) -> list[Obj]:
        """Return `status.containerStatuses[].allocatedResourcesStatus` of a container: its devices and their health."""
        entries = {entry["name"]: entry for entry in entries_of(pod)}
        statuses: list[Obj] = []
        for used in container.get("resources", {}).get("claims") or ():
            name, request = used["name"], used.get("request", "")
            claim = self._claim_name(pod, entries[name])
            info = self._claims.get(pod["metadata"]["namespace"], claim) if claim else None
            if info is not None:
                resources = list(self._resources(info, request))
                resource_name = f"claim:{name}/{request}" if request else f"claim:{name}"
                if resources:
                    statuses.append({"name": resource_name, "resources": resources})
        return statuses

    def _claim_name(self, pod: Obj, entry: Obj) -> str | None:
        """Return the claim of an entry of a pod, as the release finds it.

        1.34 looks for a claim that is named as the entry, 1.35 only finds generated claims.
        """
        try:
            name, is_generated = claim_name(pod, entry)
        except PodClaimError:
            return None
        if self._version < V1_35:
            return name if name == entry["name"] else None
        return name if is_generated or self._version >= V1_36 else None

    def _resources(self, info: ClaimInfo, request: str) -> Iterator[Obj]:
        """Yield the health of a claim's devices, from 1.36 only those of the request, and each id once."""
        seen: set[str] = set()
        request = request.partition("/")[0]  # drivers name requests without their subrequests
        for driver, devices in info.devices.items():
            for device in devices:
                pool, name = device.pool_name, device.device_name
                resource_id = device.cdi_device_ids[0] if device.cdi_device_ids else f"{driver}/{pool}/{name}"
                if self._version >= V1_36:
                    of_other_request = request and device.request_names and request not in device.request_names
                    if of_other_request or resource_id in seen:
                        continue
                seen.add(resource_id)
                health = self._health_of(driver, pool, name)
                resource: Obj = {"resourceID": resource_id, "health": health.health}
                if health.message and self._gates[features.RESOURCE_HEALTH_STATUS_MESSAGE]:
                    resource["message"] = health.message
                yield resource

    def _health_of(self, driver: str, pool: str, device: str) -> Health:
        report = self._reports.get(driver, {}).get((pool, device))
        if report is None or self._clock.now() - report.at > report.health.timeout:
            return Health()
        return report.health

    def _take(self, driver: str, devices: tuple[DeviceHealth, ...]) -> set[tuple[str, str]]:
        """Hold a report of a driver; return the devices whose health has changed.

        A device that is not in it keeps its health until that times out.
        """
        now = self._clock.now()
        reports = self._reports.setdefault(driver, {})
        changed = set()
        reported = {(d.device.pool_name, d.device.device_name): self._read(d) for d in devices}
        ignored = 0
        for key, health in reported.items():
            if key not in reports and len(reports) >= MOST_DEVICES[self._version]:
                ignored += 1
                continue
            if key not in reports or reports[key].health != health:
                changed.add(key)
            reports[key] = Report(health, now)
        if ignored:
            log.warning("driver %s: %d devices beyond %d are ignored", driver, ignored, MOST_DEVICES[self._version])
        forgotten = self._forget_timed_out(reports, reports.keys() - reported.keys(), changed)
        if changed or forgotten:
            self._save()
        return changed

    def _forget_timed_out(
        self, reports: dict[tuple[str, str], Report], left_out: set[tuple[str, str]], changed: set[tuple[str, str]]
    ) -> bool:
        """Forget the health of devices that a driver reports on no more, once it has timed out; return whether it did.

        changed  gets those whose health was known. Up to 1.36 they stay, as unknown.
        """
        now, forgotten = self._clock.now(), False
        for key in left_out:
            health = reports[key].health
            if now - reports[key].at <= health.timeout:
                continue
            if health.health != "Unknown":
                reports[key] = Report(Health(timeout=health.timeout), now)
                changed.add(key)
            if self._version >= V1_37:
                del reports[key]
                forgotten = True
        return forgotten

    def _save(self) -> None:
        if not self._closed:
            write_health_state(self._root, self._reports, self._version)

    def _read(self, device: DeviceHealth) -> Health:
        """Return the report about a device; timeouts count from 1.35, messages from 1.36."""
        seconds = device.health_check_timeout_seconds
        timeout = float(seconds) if seconds > 0 and self._version >= V1_35 else DEFAULT_TIMEOUT
        message = device.message if self._version >= V1_36 else ""
        if len(message.encode()) > LONGEST_MESSAGE:
            message = message.encode()[: LONGEST_MESSAGE - 3].decode(errors="ignore") + "..."
        return Health(_NAMES.get(HealthStatus(device.health), "Unknown"), message, timeout)
