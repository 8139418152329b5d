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
    from understudy.admission.gates import UnknownGateError
    from understudy.admission.validate import Finding, validate
    from understudy.apiserver.errors import StatusError
    from understudy.apiserver.manifests import LoadError
    from understudy.apiserver.server import Server

_HOMES = {
    "Finding": "understudy.admission.validate",
    "LoadError": "understudy.apiserver.manifests",
    "Server": "understudy.apiserver.server",
    "StatusError": "understudy.apiserver.errors",
    "UnknownGateError": "understudy.admission.gates",
    "validate": "understudy.admission.validate",
}

__all__ = ["Finding", "LoadError", "Server", "StatusError", "UnknownGateError", "validate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
