"""Pods: what a second deletion changes."""

from __future__ import annotations

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj


def test_a_later_deletion_changes_the_propagation(apiserver: Server) -> None:
    """A pod that only finalizers hold is deleted again by the options of the last request."""
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    apiserver.apply({**pod, "metadata": {"name": "a", "finalizers": ["e.io/a"]}})
    path = "/api/v1/namespaces/default/pods/a?gracePeriodSeconds=0&propagationPolicy="
    finalizers = [
        send(apiserver, "DELETE", path + policy).json()["metadata"]["finalizers"] for policy in ("Foreground", "Orphan")
    ]
    assert finalizers == [["e.io/a", "foregroundDeletion"], ["e.io/a", "orphan"]]
