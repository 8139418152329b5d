"""Evictions of pods, by the taints of the devices that their claims have."""

from __future__ import annotations

import pytest

from understudy.controlplane.allocator.checks.taint_rules import RuleMatcher
from understudy.controlplane.devicetainteviction.pools import Pools
from understudy.controlplane.devicetainteviction.tainted_claims import TaintedClaims
from understudy.machinery.releases.version import V1_36, V1_37, Version


@pytest.mark.parametrize(("version", "is_evicted"), [(V1_36, False), (V1_37, True)])
def test_pod_with_a_claim_for_extended_resources(version: Version, is_evicted: bool) -> None:
    """A tainted device of the claim that the scheduler made for a pod evicts the pod from 1.37 on."""
    taint = {"key": "example.com/broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "pool": pool, "devices": [{"name": "dev-0", "taints": [taint]}]}
    claims = TaintedClaims(version, Pools(), RuleMatcher(version, lambda name: None), groups=False)
    claims.pools.put({"metadata": {"name": "s"}, "spec": spec})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    result = {"request": "r", "driver": "d.example", "pool": "n", "device": "dev-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
    }
    metadata = {"namespace": "default", "name": "p-extended-resources-x", "uid": "c", "ownerReferences": [owner]}
    claims.put({"metadata": metadata, "spec": {}, "status": status})
    pod = {
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"nodeName": "n"},
        "status": {"extendedResourceClaimStatus": {"resourceClaimName": "p-extended-resources-x"}},
    }
    assert (claims.eviction_of(pod) is not None) is is_evicted
