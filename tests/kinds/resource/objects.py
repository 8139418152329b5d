"""Valid objects of resource.k8s.io, one of each kind, with every field that a release has."""

from __future__ import annotations

from typing import Any

from understudy.machinery.types import Obj

REQUEST = {
    "name": "r0",
    "deviceClassName": "gpu.example.com",
    "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
    "allocationMode": "ExactCount",
    "count": 2,
}
CONFIG = {"opaque": {"driver": "gpu.example.com", "parameters": {"mode": "fast", "sizes": [1, 2.5, None]}}}
DEVICES: Obj = {
    "requests": [REQUEST, {"name": "r1", "deviceClassName": "nic", "allocationMode": "All"}],
    "constraints": [{"requests": ["r0"], "matchAttribute": "gpu.example.com/numa"}],
    "config": [{"requests": ["r0", "r1"], **CONFIG}, CONFIG],
}
TERM = {
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
}
ALLOCATION = {
    "devices": {
        "results": [
            {"request": "r0", "driver": "gpu.example.com", "pool": "node-1/a", "device": "gpu-0", "adminAccess": None}
        ],
        "config": [{"source": "FromClass", "requests": ["r0"], **CONFIG}],
    },
    "nodeSelector": {"nodeSelectorTerms": [TERM]},
}
STATUS: Obj = {
    "allocation": ALLOCATION,
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u-1"}, {"resource": "pods", "name": "q", "uid": "u-2"}],
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "node-1/a",
            "device": "gpu-0",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Up",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "data": {"a": 1},
            "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"]},
        }
    ],
}
ATTRIBUTES = {
    "model": {"string": "A100"},
    "gpu.example.com/numa": {"int": 1},
    "healthy": {"bool": True},
    "driverVersion": {"version": "1.2.3-rc.1+build"},
}


def metadata(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {"app": "a", "example.com/tier": ""},
        "annotations": {"example.com/Note": "text"},
        "finalizers": ["example.com/cleanup"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1", "controller": True}],
    }


def objects(version: str) -> dict[str, dict[str, Any]]:
    """Return one object of each kind, by kind, in the form of a version."""
    memory: Any = "80Gi" if version == "v1alpha3" else {"value": "80Gi"}
    device = {"name": "gpu-0", "basic": {"attributes": ATTRIBUTES, "capacity": {"memory": memory}}}
    specs: dict[str, Any] = {
        "ResourceClaim": {"devices": DEVICES},
        "ResourceClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": DEVICES}},
        "DeviceClass": {"selectors": REQUEST["selectors"], "config": [CONFIG]},
        "ResourceSlice": {
            "driver": "gpu.example.com",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {"nodeSelectorTerms": [TERM]},
            "devices": [device],
        },
    }
    return {
        kind: {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": kind,
            "metadata": metadata(kind.lower()),
            "spec": spec,
        }
        for kind, spec in specs.items()
    }
