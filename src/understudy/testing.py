"""What tests of drivers, schedulers and operators for Dynamic Resource Allocation need, besides a `Server`.

FakeDriver   a driver without hardware: registers with a kubelet, publishes devices, prepares claims, fails if it shall
Kubelet      the kubelet of a node, without containers
Connection   the way to an API server, which a kubelet takes

The messages are those of the gRPC services of drivers, for `FakeDriver(prepare=…, unprepare=…)`. All of it needs the
extra `kubelet`; docs/howto/drivers.md shows how it is used.
"""

from __future__ import annotations

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.kubelet.dra.api import (
    Claim,
    ClaimsRequest,
    Device,
    HealthStatus,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.fake.driver import FakeDriver
from understudy.controlplane.kubelet.kubelet import Kubelet
from understudy.controlplane.kubelet.pluginmanager import RegistrationStatus

__all__ = [
    "Claim",
    "ClaimsRequest",
    "Connection",
    "Device",
    "FakeDriver",
    "HealthStatus",
    "Kubelet",
    "PrepareResponse",
    "PreparedClaim",
    "RegistrationStatus",
    "UnprepareResponse",
    "UnpreparedClaim",
    "WatchResourcesResponse",
]
