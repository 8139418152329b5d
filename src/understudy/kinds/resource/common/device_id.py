"""The identity of a device in a cluster, and the ways in which errors show it."""

from __future__ import annotations

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import NamedTuple, Obj


class DeviceID(NamedTuple):
    """The identity of a device, or of a share of one, in a cluster (upstream: `structured.SharedDeviceID`)."""

    driver: str
    pool: str
    device: str
    share: str = ""

    @staticmethod
    def of(entry: Obj) -> DeviceID:
        """Return the identity in an allocation's result or in an entry of a claim's device status."""
        return DeviceID(
            entry.get("driver", ""), entry.get("pool", ""), entry.get("device", ""), entry.get("shareID") or ""
        )

    def __str__(self) -> str:
        """Return the names with slashes between them (1.33 and before)."""
        return "/".join(self[:3])

    def json(self) -> str:
        """Return the identity as JSON (since 1.35)."""
        return encode(dict(zip(("Driver", "Pool", "Device", "ShareID"), self, strict=True))).decode()

    def empty_json(self) -> str:
        """Return JSON without the names: their Go type has no exported fields in 1.34."""
        return encode({name: {} for name in ("Driver", "Pool", "Device", "ShareID")}).decode()
