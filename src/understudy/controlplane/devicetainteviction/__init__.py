"""Device taint eviction: deletes the pods whose devices have a NoExecute taint that they do not tolerate.

Upstream: `pkg/controller/devicetainteviction` of kube-controller-manager, from 1.33 on.
"""

from understudy.controlplane.components import ComponentSince
from understudy.controlplane.devicetainteviction.controller import run as _run
from understudy.machinery.releases.version import V1_33

run = ComponentSince(V1_33, _run)

__all__ = ["run"]
