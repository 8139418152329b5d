"""The kinds that random requests are about, with the values of their fields."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from scripts.common.comparing import MEDIA, Obj, Parts, Server, end_namespace


@dataclass(frozen=True)
class Kind:
    """The values from which objects of a kind are made.

    `versions` has API versions with the paths of their collections. Every object has the `required` parts and some of
    `parts`; `status` are those of the status subresource.
    """

    name: str
    versions: tuple[tuple[str, str], ...]
    required: Parts
    parts: Parts
    status: Parts
    fields: tuple[str, ...]  # field selectors
    namespaced: bool = True


OBJECT_META: Parts = (
    ("metadata.labels", ({"a": "1"}, {"a": "2", "b": "x"}, {"b": "y"}, {"a": "not valid!"}, None)),
    ("metadata.annotations", ({"x": "1"}, {"x": "<&>"}, {"X/y/z": "1"}, {"x": ""})),
    ("metadata.finalizers", (["e.io/a"], ["e.io/b", "e.io/a"], ["plain"], [])),
    (
        "metadata.ownerReferences",
        (
            [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}],
            [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}],
            [{"apiVersion": "v1", "kind": "", "name": "o", "uid": "u"}],
        ),
    ),
    ("metadata.generation", (5, -1)),
    ("metadata.uid", ("made-up",)),
    ("metadata.creationTimestamp", ("2020-01-01T00:00:00Z", "yesterday", None)),
    ("metadata.deletionTimestamp", ("2020-01-01T00:00:00Z",)),
    ("metadata.namespace", ("elsewhere", "", "{{ns}}")),
    ("metadata.nonsense", (1,)),
    ("metadata.managedFields", ([], [{}], None)),
    ("metadata.resourceVersion", ("", "0", "1", "x")),
    ("nonsense", ({"a": 1}, None)),
    ("kind", ("Wrong", "")),
    ("apiVersion", ("wrong/v1", "v1", "", "resource.k8s.io/v1alpha3", "a/b/c")),
)


def devices(*changes: Obj) -> Obj:
    """Return a claim's devices with one request for each change.

    A request has its fields twice, for the versions until v1beta1 and for those with `exactly`; servers drop the form
    that a version does not have.
    """
    requests = []
    for i, change in enumerate(changes):
        fields = {"deviceClassName": "gpu.example.com", **change}
        name = fields.pop("name", f"r{i}")
        requests.append({"name": name, **fields, "exactly": fields})
    return {"requests": requests}


LIMITS = {"limits": {"cpu": 1}}
RESULT = {"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
POD = {"resource": "pods", "name": "p", "uid": "u1"}
FIELDS = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}}
DEVICE = {"name": "d0", "basic": FIELDS, **FIELDS}  # in the form of v1beta1 and in that of v1beta2 and v1
RESOURCE = tuple(f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3"))
SHARE = "0123abcd-4567-89ab-cdef-0123456789ab"
SHARED = {**RESULT, "shareID": SHARE, "consumedCapacity": {"memory": "1024Mi"}, "tolerations": [{"key": "a"}]}
SUBREQUESTS = [{"name": "s", "deviceClassName": "a"}, {"name": "t", "deviceClassName": "b", "count": 3}]


def paths(versions: tuple[str, ...], resource: str, namespaced: bool = True) -> tuple[tuple[str, str], ...]:
    """Return each API version with the path of a collection in it."""
    where = "/namespaces/{{ns}}/" if namespaced else "/"
    roots = (f"/apis/{v}" if "/" in v else f"/api/{v}" for v in versions)
    return tuple((v, root + where + resource) for v, root in zip(versions, roots, strict=True))


KINDS = (
    Kind(
        "ResourceClaim",
        paths(RESOURCE, "resourceclaims"),
        (("spec.devices", (devices({}), devices({}), devices({}, {"count": 2}))),),
        (
            *OBJECT_META,
            ("spec.devices", (devices({"adminAccess": True}), devices({"allocationMode": "All"}), {})),
            ("spec.devices", (devices({"allocationMode": "Some"}), devices({"name": "Bad_Name", "count": -1}))),
            ("spec.devices", (devices({"selectors": [{"cel": {"expression": "device.driver == 'a'"}}]}),)),
            ("spec.devices", (devices({"selectors": [{"cel": {"expression": "noSuch("}}]}), "text", None)),
            ("spec.devices.constraints", ([{"matchAttribute": "a.com/m"}], [{"requests": ["r9"]}], 5)),
            ("spec.devices.config", ([{"opaque": {"driver": "d", "parameters": {"b": 1, "a": [1.50]}}}], [{}])),
            ("spec.controller", ("c.example.com",)),
            ("spec.devices", ({"requests": [{"name": "f", "firstAvailable": SUBREQUESTS}]},)),
            ("spec.devices", (devices({"tolerations": [{"key": "k"}]}),)),
            ("spec.devices", (devices({"capacity": {"requests": {"memory": "1024Mi"}}}),)),
            ("spec.devices.constraints", ([{"distinctAttribute": "a.com/m"}],)),
        ),
        (
            ("status.allocation", ({"devices": {"results": [RESULT]}}, {}, None, {"devices": {"results": [{}]}})),
            ("status.reservedFor", ([POD], [POD, {**POD, "name": "q", "uid": "u2"}], [POD, POD], [], [{}])),
            ("status.devices", ([{"driver": "gpu.example.com", "pool": "p", "device": "d0", "data": {"a": 1}}], [])),
            ("status.allocation", ({"devices": {"results": [SHARED]}, "allocationTimestamp": "2026-01-01T00:00:00Z"},)),
            ("status.devices", ([{"driver": "gpu.example.com", "pool": "p", "device": "d0", "shareID": SHARE}],)),
            ("status.nonsense", (1,)),
            ("metadata.labels", ({"s": "1"},)),
            ("metadata.finalizers", (["e.io/s"],)),
            ("spec", ({"devices": {}},)),
        ),
        ("metadata.name", "metadata.namespace", "name", "spec.x"),
    ),
    Kind(
        "ResourceSlice",
        paths(RESOURCE, "resourceslices", False),
        (
            ("spec.driver", ("gpu.example.com", "nic.example.com")),
            ("spec.nodeName", ("node-1", "node-2")),
            ("spec.pool", ({"name": "p", "resourceSliceCount": 1},)),
            ("spec.devices", ([DEVICE], [])),
            ("metadata.labels", ({"run": "{{run}}"}, {"run": "{{run}}", "a": "1"})),
        ),
        (
            *(part for part in OBJECT_META if part[0] != "metadata.labels"),
            ("spec.driver", ("Not Valid", "")),
            ("spec.nodeName", ("", None)),
            ("spec.allNodes", (True, False)),
            ("spec.nodeSelector", ({"nodeSelectorTerms": [{"matchFields": []}]}, {})),
            ("spec.pool", ({"name": "p", "resourceSliceCount": 0}, {}, {"name": "q", "generation": 2})),
            ("spec.devices", ([DEVICE, DEVICE], [{"name": "d1"}], [{**DEVICE, "name": "D_"}], 7)),
            ("spec.devices", ([{**DEVICE, "taints": [{"key": "k", "effect": "NoSchedule"}]}],)),
            ("spec.perDeviceNodeSelection", (True,)),
            ("spec.sharedCounters", ([{"name": "c", "counters": {"memory": {"value": "1Gi"}}}], [{"name": "C_"}])),
        ),
        (),
        ("metadata.name", "spec.nodeName", "spec.driver", "spec.pool", "name"),
        namespaced=False,
    ),
    Kind(
        "Pod",
        paths(("v1",), "pods"),
        (("spec.containers", ([{"name": "c", "image": "i:1"}], [{"name": "c", "image": "i:2"}])),),
        (
            *OBJECT_META,
            ("spec.nodeName", ("node-1",)),
            ("spec.activeDeadlineSeconds", (5, 10, 0)),
            ("spec.terminationGracePeriodSeconds", (0, 30, -5)),
            ("spec.tolerations", ([{"key": "k", "operator": "Exists"}], [{"operator": "Sometimes"}])),
            (
                "spec.containers",
                ([], [{"name": "c"}], [{"name": "c", "image": "i", "resources": LIMITS}]),
            ),
            ("spec.resourceClaims", ([{"name": "x", "resourceClaimName": "a"}], [{"name": "x"}], [{"name": "X_"}])),
            ("spec.restartPolicy", ("Never", "Sometimes", "")),
            ("spec.schedulingGates", ([{"name": "e.io/g"}],)),
            ("spec.priority", (1, 0)),
            ("spec.nodeSelector", ({"a": "1"},)),
        ),
        (
            ("status.phase", ("Running", "Failed", "Odd")),
            (
                "status.conditions",
                ([{"type": "Ready", "status": "True"}], [{"type": "Odd", "status": "Maybe"}], [{}]),
            ),
            ("status.resourceClaimStatuses", ([{"name": "x", "resourceClaimName": "a"}], [{"name": "y"}])),
            ("status.podIP", ("10.0.0.1", "nowhere")),
            ("metadata.labels", ({"s": "1"},)),
            ("spec.nodeName", ("node-9",)),
        ),
        ("metadata.name", "spec.nodeName", "status.phase", "spec.restartPolicy", "metadata.namespace", "spec.x"),
    ),
    Kind(
        "ConfigMap",
        paths(("v1",), "configmaps"),
        (),
        (
            *OBJECT_META,
            ("data", ({"k": "1"}, {"k": "2", "l": "<&>"}, {"bad key": "1"}, {}, None, {"k": 1}, [])),
            ("binaryData", ({"b": "AAEC"}, {"k": "AA=="}, {"b": "not base64"})),
            ("immutable", (True, False, None, "yes")),
        ),
        (),
        ("metadata.name", "metadata.namespace", "data.k"),
    ),
)
K = TypeVar("K", bound=Kind)


def served_kinds(server: Server, known: Iterable[K]) -> tuple[K, ...]:
    """Return those of the known kinds that the server's release has, with the versions that it serves."""
    kinds = []
    for kind in known:
        collections = ((version, version[1].replace("{{ns}}", "default")) for version in kind.versions)
        versions = tuple(version for version, path in collections if server.call("GET", path)[0] == 200)
        kinds.append(replace(kind, versions=versions))
    return tuple(kind for kind in kinds if kind.versions)


def clean(server: Server, namespace: str, kinds: tuple[Kind, ...]) -> None:
    """Delete the objects that a sequence has left, and its namespace."""
    for kind in kinds:
        collection = kind.versions[0][1].replace("{{ns}}", namespace)
        selector = "" if kind.namespaced else f"?labelSelector=run%3D{namespace}"
        left = server.call("GET", collection + selector)[1].get("items") or []
        for item in left:
            path = f"{collection}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                server.call("PATCH", path, {"metadata": {"finalizers": None}}, MEDIA["merge"])
            server.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    end_namespace(server, namespace)
    if (status := server.call("GET", f"/api/v1/namespaces/{namespace}")[0]) != 404:
        print(f"{server.url}: namespace {namespace} is left: {status}", file=sys.stderr)
