"""The server that users start: an API server, and behind it the controllers that its options name."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.server import server as apiserver
from understudy.controlplane.controllers import ControllerManager
from understudy.machinery.releases.version import Version


class Server(apiserver.Server):
    """A stand-in for kube-apiserver. Its options are those of `ServerConfig`.

    Raises ValueError for options that make no sense, OSError for a port that is taken, LoadError for a manifest.
    """

    def _new_controller_manager(self, names: Iterable[str], version: Version) -> ControllerManager:
        return ControllerManager(names, version)
