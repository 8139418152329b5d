"""The server that runs in place of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from understudy.controlplane import server
from understudy.controlplane.controllers import ControllerManager
from understudy.controlplane.controllers.namespace import NamespaceController
from understudy.machinery.releases.version import Version

# Seconds between the deletion of a namespace and that of its content. Suites for envtest know that nothing deletes it:
# some remove the finalizer themselves, which would fail if the namespace were gone before.
GRACE_PERIOD = 1.0


class Server(server.Server):
    """A stand-in for kube-apiserver whose controllers give suites time to do their work."""

    def _new_controller_manager(self, names: Iterable[str], version: Version) -> ControllerManager:
        namespace = partial(NamespaceController, grace_period=GRACE_PERIOD)
        return ControllerManager(names, version, {"namespace": namespace})
