"""A stand-in for the Kubernetes API server, for integration tests and a laptop.

    from understudy import Server

    with Server(emulated_version="1.34") as server:
        ...

These names are all that users import, with those of `understudy.testing`: modules below may move. A name is imported
when it is first used: importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as checkers read it; to import `typing` would take ten times as long as all of this module
if TYPE_CHECKING:
    from typing import Any

    from understudy.apiserver.client.connection import Connection
    from understudy.apiserver.client.external.kubectl import KubectlError
    from understudy.apiserver.client.external.server_user import ServerUser
    from understudy.apiserver.client.kind_names import RequestError
    from understudy.apiserver.client.listing import ObjectList
    from understudy.apiserver.client.manifests import LoadError
    from understudy.apiserver.client.watching import Watch, WatchEvent
    from understudy.apiserver.permissions.report import Permission, Permissions
    from understudy.apiserver.server.filters.faults.fault import Fault
    from understudy.apiserver.server.filters.faults.faults import Faults, FiredFault
    from understudy.apiserver.server.filters.faults.rules import Chaos, FaultRule
    from understudy.apiserver.server.filters.request_log.requests import LoggedRequest, Requests
    from understudy.apiserver.server.lifecycle import Snapshot
    from understudy.apiserver.server.options.config import ServerConfig
    from understudy.controlplane.allocator.allocated import AllocatedState
    from understudy.controlplane.allocator.allocator import Allocator
    from understudy.controlplane.allocator.errors import AllocationError, AllocationTimeoutError, AllocatorPanicError
    from understudy.controlplane.allocator.explanation import Explanation
    from understudy.controlplane.allocator.inventory import Inventory
    from understudy.controlplane.kubelet.fake.driver import FakeDriver
    from understudy.controlplane.kubelet.kubelet import Kubelet
    from understudy.controlplane.server import Server
    from understudy.controlplane.simulation.failures import Failures
    from understudy.controlplane.simulation.simulation import Simulation
    from understudy.controlplane.simulation.workload import Workload
    from understudy.machinery.errors import StatusError
    from understudy.machinery.releases.features import UnknownGateError
    from understudy.machinery.releases.version import Version
    from understudy.machinery.util.server_clock import ServerClock
    from understudy.offline.validator import Finding, validate

_HOMES = {
    "AllocatedState": "understudy.controlplane.allocator.allocated",
    "AllocationError": "understudy.controlplane.allocator.errors",
    "AllocationTimeoutError": "understudy.controlplane.allocator.errors",
    "Allocator": "understudy.controlplane.allocator.allocator",
    "AllocatorPanicError": "understudy.controlplane.allocator.errors",
    "Chaos": "understudy.apiserver.server.filters.faults.rules",
    "Connection": "understudy.apiserver.client.connection",
    "Explanation": "understudy.controlplane.allocator.explanation",
    "FakeDriver": "understudy.controlplane.kubelet.fake.driver",
    "Failures": "understudy.controlplane.simulation.failures",
    "Fault": "understudy.apiserver.server.filters.faults.fault",
    "FaultRule": "understudy.apiserver.server.filters.faults.rules",
    "Faults": "understudy.apiserver.server.filters.faults.faults",
    "Finding": "understudy.offline.validator",
    "FiredFault": "understudy.apiserver.server.filters.faults.faults",
    "Inventory": "understudy.controlplane.allocator.inventory",
    "KubectlError": "understudy.apiserver.client.external.kubectl",
    "Kubelet": "understudy.controlplane.kubelet.kubelet",
    "LoadError": "understudy.apiserver.client.manifests",
    "LoggedRequest": "understudy.apiserver.server.filters.request_log.requests",
    "ObjectList": "understudy.apiserver.client.listing",
    "Permission": "understudy.apiserver.permissions.report",
    "Permissions": "understudy.apiserver.permissions.report",
    "RequestError": "understudy.apiserver.client.kind_names",
    "Requests": "understudy.apiserver.server.filters.request_log.requests",
    "Server": "understudy.controlplane.server",
    "ServerClock": "understudy.machinery.util.server_clock",
    "ServerConfig": "understudy.apiserver.server.options.config",
    "ServerUser": "understudy.apiserver.client.external.server_user",
    "Simulation": "understudy.controlplane.simulation.simulation",
    "Snapshot": "understudy.apiserver.server.lifecycle",
    "StatusError": "understudy.machinery.errors",
    "UnknownGateError": "understudy.machinery.releases.features",
    "Version": "understudy.machinery.releases.version",
    "Watch": "understudy.apiserver.client.watching",
    "WatchEvent": "understudy.apiserver.client.watching",
    "Workload": "understudy.controlplane.simulation.workload",
    "validate": "understudy.offline.validator",
}

__all__ = [
    "AllocatedState",
    "AllocationError",
    "AllocationTimeoutError",
    "Allocator",
    "AllocatorPanicError",
    "Chaos",
    "Connection",
    "Explanation",
    "Failures",
    "FakeDriver",
    "Fault",
    "FaultRule",
    "Faults",
    "Finding",
    "FiredFault",
    "Inventory",
    "KubectlError",
    "Kubelet",
    "LoadError",
    "LoggedRequest",
    "ObjectList",
    "Permission",
    "Permissions",
    "RequestError",
    "Requests",
    "Server",
    "ServerClock",
    "ServerConfig",
    "ServerUser",
    "Simulation",
    "Snapshot",
    "StatusError",
    "UnknownGateError",
    "Version",
    "Watch",
    "WatchEvent",
    "Workload",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
