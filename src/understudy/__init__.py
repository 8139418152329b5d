"""A stand-in for the Kubernetes API server, for integration tests and a laptop.

    from understudy import Server

    with Server(emulated_version="1.32") as server:
        ...

Names are imported when they are first used: importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.apiserver.client.manifests import LoadError
    from understudy.apiserver.client.server_user import ServerUser
    from understudy.apiserver.client.watching import Watch, WatchEvent
    from understudy.controlplane.server import Server
    from understudy.machinery.errors import StatusError
    from understudy.machinery.releases.features import UnknownGateError
    from understudy.offline.validator import Finding, validate

_HOMES = {
    "Finding": "understudy.offline.validator",
    "LoadError": "understudy.apiserver.client.manifests",
    "Server": "understudy.controlplane.server",
    "ServerUser": "understudy.apiserver.client.server_user",
    "StatusError": "understudy.machinery.errors",
    "UnknownGateError": "understudy.machinery.releases.features",
    "Watch": "understudy.apiserver.client.watching",
    "WatchEvent": "understudy.apiserver.client.watching",
    "validate": "understudy.offline.validator",
}

__all__ = [
    "Finding",
    "LoadError",
    "Server",
    "ServerUser",
    "StatusError",
    "UnknownGateError",
    "Watch",
    "WatchEvent",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
