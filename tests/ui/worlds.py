"""What servers of the tests of the page begin with."""

from __future__ import annotations

from typing import Any

# Runs in a browser that takes text for markup, in each of the forms in which that can happen.
MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\'"`${window.broken=1}</textarea>'


def hostile_objects() -> list[dict[str, Any]]:
    """Return objects with markup in every text that the API lets in."""
    labels = {"annotations": {"example.com/text": MARKUP}, "finalizers": ["example.com/keep"]}
    device = {"name": "gpu-0", "attributes": {"text": {"string": MARKUP[:60]}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1", "annotations": {"example.com/text": MARKUP}},
            "spec": {"taints": [{"key": "example.com/t", "value": "v", "effect": "NoSchedule"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "hostile", "namespace": "default", **labels},
            "data": {"a": MARKUP, "b": f"{MARKUP}\n{MARKUP}\n", "c": "</script><script>window.broken=1</script>"},
        },
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "hostile", "namespace": "default"},
            "involvedObject": {"kind": MARKUP, "name": MARKUP, "namespace": "default"},
            "reason": MARKUP,
            "message": MARKUP,
            "type": MARKUP,
            "source": {"component": MARKUP},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "hostile", "annotations": {"example.com/text": MARKUP}},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "node-1",
                "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [device],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.example.com"},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver != '''{MARKUP}'''"}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "hostile", "namespace": "default", **labels},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "gpu",
                            "exactly": {
                                "deviceClassName": "gpu.example.com",
                                "selectors": [{"cel": {"expression": f"device.driver == '''{MARKUP}'''"}}],
                            },
                        }
                    ]
                }
            },
        },
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                        "additionalPrinterColumns": [
                            {"name": MARKUP, "type": "string", "jsonPath": ".text", "description": MARKUP}
                        ],
                    }
                ],
            },
        },
    ]


def hostile_thing() -> dict[str, Any]:
    """Return a custom object whose keys and values are markup."""
    metadata = {"name": "hostile", "namespace": "default"}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": metadata,
        "text": MARKUP,
        MARKUP: {MARKUP: [MARKUP]},
    }
