"""The claims that pods of a node use, in memory and in a file. Upstream: `pkg/kubelet/cm/dra/claiminfo.go`, `state`.

The file `dra_manager_state` has the format of the real kubelet, so that either can go on with the file of the other:
`{"Data": TEXT, "Checksum": N}`, where the text is JSON and the number its CRC-32. Whether a claim is prepared is not in
it: after a restart drivers are asked once more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import orjson

from understudy.controlplane.client.store import Key
from understudy.controlplane.kubelet.dra.api import Claim, Device
from understudy.controlplane.kubelet.files import replace_file
from understudy.machinery.golang.json_reader import DecodeError, parse, to_text
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, V1_35, Version
from understudy.machinery.types import Obj, dataclass

FILE = "dra_manager_state"
ALL = "*"  # of the operations that a device may skip
_TYPE = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


class CheckpointError(Exception):
    """The file of the claims cannot be read. The kubelet does not start then."""


@dataclass
class ClaimInfo:
    """A claim, the pods that use it, and its prepared devices by driver. Only the DRA manager changes it."""

    uid: str
    name: str
    namespace: str
    pod_uids: set[str]
    devices: dict[str, list[Device]]  # has each driver of the allocation from the beginning
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by driver, what it is not asked for
    prepared: bool = field(default=False, compare=False)
    unpreparing: bool = field(default=False, compare=False)  # drivers are asked to unprepare it, or were and failed

    @staticmethod
    def of(claim: Obj, gates: Gates) -> ClaimInfo:
        """Return the entry of a claim. Raises ValueError if it is not allocated, or allows to skip what is not known.

        Upstream: `newClaimInfoFromClaim`.
        """
        metadata, allocation = claim["metadata"], claim.get("status", {}).get("allocation")
        if allocation is None:
            raise ValueError("not allocated")
        results = allocation.get("devices", {}).get("results") or ()
        devices: dict[str, list[Device]] = {result["driver"]: [] for result in results}
        skipped = _skipped_operations(results)
        if skipped and not gates[features.DRA_OPTIONAL_NODE_OPERATIONS]:
            raise ValueError("DRAOptionalNodeOperations feature gate is disabled on kubelet")
        return ClaimInfo(metadata["uid"], metadata["name"], metadata["namespace"], set(), devices, skipped)

    def drivers(self, method: str) -> list[str]:
        """Return the drivers that are asked for an operation: NodePrepareResources or NodeUnprepareResources."""
        return [driver for driver in self.devices if not {method, ALL} & set(self.skipped.get(driver, ()))]

    @property
    def key(self) -> Key:
        """Return namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def claim(self) -> Claim:
        """Return the name under which drivers are asked to prepare it."""
        return Claim(self.namespace, self.uid, self.name)

    def cdi_devices(self, request: str) -> list[str]:
        """Return the CDI ids of a request's devices, or of all for "". Devices that name no request belong to each."""
        return [
            cdi_id
            for devices in self.devices.values()
            for device in devices
            if not request or not device.request_names or request in device.request_names
            for cdi_id in device.cdi_device_ids
        ]


class ClaimInfoCache:
    """The entries of all claims, read from a file when it is made. Raises CheckpointError."""

    def __init__(self, root: Path, version: Version) -> None:
        self._file = root / FILE
        self._version = version
        root.mkdir(parents=True, exist_ok=True)
        self._entries: dict[Key, ClaimInfo] = {}
        if self._file.exists():
            self._entries = {info.key: info for info in self._read()}
        else:
            self._write(None)

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(list(self._entries.values()))

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return the entry of a claim, None if no pod uses it."""
        return self._entries.get(Key(namespace, name))

    def names_for_pod(self, uid: str) -> list[str]:
        """Return the names of the claims that a pod uses. Upstream: `claimNamesForPod`."""
        return [info.name for info in self._entries.values() if uid in info.pod_uids]

    def add(self, info: ClaimInfo) -> None:
        """Hold an entry."""
        self._entries[info.key] = info

    def delete(self, info: ClaimInfo) -> None:
        """Let an entry go."""
        self._entries.pop(info.key, None)

    def save(self) -> None:
        """Write the file. Upstream: `syncToCheckpoint`."""
        self._write([self._state(info) for info in self._entries.values()])

    def _state(self, info: ClaimInfo) -> dict[str, Any]:
        return {
            "ClaimUID": info.uid,
            "ClaimName": info.name,
            "Namespace": info.namespace,
            "PodUIDs": {uid: {} for uid in sorted(info.pod_uids)},
            "DriverState": {
                driver: {
                    "Devices": [self._device_state(device) for device in devices] or None,
                    **({"skipNodeOperations": list(info.skipped[driver])} if driver in info.skipped else {}),
                }
                for driver, devices in sorted(info.devices.items())
            },
        }

    def _device_state(self, device: Device) -> dict[str, Any]:
        return {
            "PoolName": device.pool_name,
            "DeviceName": device.device_name,
            **({"ShareID": device.share_id} if self._version >= V1_35 else {}),
            "RequestNames": list(device.request_names) or None,
            "CDIDeviceIDs": list(device.cdi_device_ids) or None,
        }

    def _write(self, states: list[dict[str, Any]] | None) -> None:
        data = encode({**_TYPE, "ClaimInfoStateList": states})
        replace_file(self._file, encode({"Data": data.decode(), "Checksum": zlib.crc32(data)}))

    def _read(self) -> list[ClaimInfo]:
        body = self._file.read_bytes()
        try:
            checkpoint = _object_of(body, "state.Checkpoint")
            data = str(checkpoint.get("Data", "")).encode()
            if zlib.crc32(data) != checkpoint.get("Checksum", 0):
                raise DecodeError("checkpoint is corrupted")
            states = _object_of(data, "state.CheckpointData").get("ClaimInfoStateList") or ()
        except DecodeError as why:
            raise CheckpointError(self._error_text(str(why))) from why
        return [_info_of(state) for state in states]

    def _error_text(self, why: str) -> str:
        if self._version >= V1_34:
            prefix = "create ResourceClaim cache: GetOrCreate() on checkpoint state"
        else:
            prefix = "failed to create claimInfo cache: error calling GetOrCreate() on checkpoint state"
        return f"{prefix}: failed to get checkpoint {FILE}: {why}"


def _object_of(body: bytes, go_type: str) -> dict[str, Any]:
    """Return a JSON object. Raises DecodeError with the text that Go has for anything else."""
    kind = parse(to_text(body)).kind
    if kind != "object":
        raise DecodeError(f"json: cannot unmarshal {kind} into Go value of type {go_type}")
    obj: dict[str, Any] = orjson.loads(body)
    return obj


def _info_of(state: dict[str, Any]) -> ClaimInfo:
    devices = {
        driver: [
            Device(
                tuple(device["RequestNames"] or ()),
                device["PoolName"],
                device["DeviceName"],
                tuple(device["CDIDeviceIDs"] or ()),
                device.get("ShareID"),
            )
            for device in driver_state["Devices"] or ()
        ]
        for driver, driver_state in (state["DriverState"] or {}).items()
    }
    skipped = {
        driver: tuple(driver_state["skipNodeOperations"])
        for driver, driver_state in (state["DriverState"] or {}).items()
        if driver_state.get("skipNodeOperations")
    }
    pod_uids = set(state["PodUIDs"] or ())
    return ClaimInfo(state["ClaimUID"], state["ClaimName"], state["Namespace"], pod_uids, devices, skipped)


def _skipped_operations(results: Iterable[Obj]) -> dict[str, tuple[str, ...]]:
    """Return the operations that all devices of a driver skip, by driver. Upstream: `computeDriverStates`."""
    by_driver: dict[str, list[set[str]]] = {}
    for result in results:
        by_driver.setdefault(result["driver"], []).append(set(result.get("skipNodeOperations") or ()))
    skipped: dict[str, tuple[str, ...]] = {}
    for driver, operations in by_driver.items():
        named = set().union(*operations) - {ALL}
        common = sorted(name for name in named if all(each & {name, ALL} for each in operations))
        if all(ALL in each for each in operations):
            skipped[driver] = (ALL,)
        elif common:
            skipped[driver] = tuple(common)
    return skipped
