"""The claim controller: makes claims of pods' templates, and frees what pods do not use any more.

Upstream: `pkg/controller/resourceclaim` of kube-controller-manager. Each release does what its controller does, known
mistakes included.
"""

from understudy.controlplane.resourceclaim.controller import run

__all__ = ["run"]
