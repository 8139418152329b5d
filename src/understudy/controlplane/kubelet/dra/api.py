"""The gRPC services of DRA drivers and their messages. Upstream: `k8s.io/kubelet/pkg/apis/dra`, `dra-health`.

The messages of all versions are the same on the wire; only the names of the services differ.
"""

from __future__ import annotations

from enum import IntEnum

from understudy.machinery.serializer.rpc.messages import (
    Message,
    integer,
    message,
    messages,
    optional_text,
    text,
    text_map,
    texts,
)
from understudy.machinery.types import dataclass

# What a driver names in its registration, and the service's name on the wire.
V1, V1BETA1, V1ALPHA4 = "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha3.NodeService"
WIRE_NAMES = {
    V1: "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    V1BETA1: "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
    V1ALPHA4: "v1alpha3.Node",
}
HEALTH_V1, HEALTH_V1ALPHA1 = "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"  # named so on the wire as well
PREPARE, UNPREPARE, WATCH = "NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources"


@dataclass(frozen=True)
class Claim(Message):
    """The name of a ResourceClaim."""

    namespace: str = text(1)
    uid: str = text(2)
    name: str = text(3)


@dataclass(frozen=True)
class Device(Message):
    """A prepared device, with what a container runtime needs to make it available."""

    request_names: tuple[str, ...] = texts(1)
    pool_name: str = text(2)
    device_name: str = text(3)
    cdi_device_ids: tuple[str, ...] = texts(4)
    share_id: str | None = optional_text(5)


@dataclass(frozen=True)
class ClaimsRequest(Message):
    """Asks a driver to prepare or unprepare claims: `NodePrepareResourcesRequest`, `NodeUnprepareResourcesRequest`."""

    claims: tuple[Claim, ...] = messages(1, Claim)


@dataclass(frozen=True)
class PreparedClaim(Message):
    """The devices of one claim, or why it could not be prepared. Upstream: `NodePrepareResourceResponse`."""

    devices: tuple[Device, ...] = messages(1, Device)
    error: str = text(2)


@dataclass(frozen=True)
class PrepareResponse(Message):
    """The answers for all claims of a request, by uid. Upstream: `NodePrepareResourcesResponse`."""

    claims: dict[str, PreparedClaim] = text_map(1, PreparedClaim)


@dataclass(frozen=True)
class UnpreparedClaim(Message):
    """Why one claim could not be unprepared, "" if it was. Upstream: `NodeUnprepareResourceResponse`."""

    error: str = text(1)


@dataclass(frozen=True)
class UnprepareResponse(Message):
    """The answers for all claims of a request, by uid. Upstream: `NodeUnprepareResourcesResponse`."""

    claims: dict[str, UnpreparedClaim] = text_map(1, UnpreparedClaim)


class HealthStatus(IntEnum):
    """The health of a device, as drivers send it."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True)
class DeviceIdentifier(Message):
    """The name of a device of a driver."""

    pool_name: str = text(1)
    device_name: str = text(2)


@dataclass(frozen=True)
class DeviceHealth(Message):
    """The health of one device. Times are seconds."""

    device: DeviceIdentifier = message(1, DeviceIdentifier)
    health: int = integer(2)
    last_updated_time: int = integer(3)
    health_check_timeout_seconds: int = integer(4)
    message: str = text(5)


@dataclass(frozen=True)
class WatchResourcesRequest(Message):
    """Asks a driver for the health of its devices."""


@dataclass(frozen=True)
class WatchResourcesResponse(Message):
    """The health of all devices of a driver."""

    devices: tuple[DeviceHealth, ...] = messages(1, DeviceHealth)
