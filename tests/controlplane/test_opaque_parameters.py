"""Parameters for drivers stay as they were sent, byte for byte, whatever controllers do with their claims."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.http import exchange, send
from tests.releases import NEWEST, every_release
from tests.waiting import wait_until
from understudy import Server
from understudy.controlplane.client.resources import (
    NODES,
    PODS,
    Resource,
    device_classes,
    resource_claim_templates,
    resource_claims,
    resource_slices,
)
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj

PROTOBUF = "application/vnd.kubernetes.protobuf"
ODDITIES = '"é": "\\u00e9\\u003c<&>", "z": [1.0, 1e3, -0, 9223372036854775807, 12345678901234567890123],\n "a": 1,"a":2'
CONTROLLERS = ["resourceclaim", "scheduler"]


def parameters(source: str) -> str:
    """Return the text of parameters that no encoder of JSON would write like this."""
    return f'{{"from": "{source}", {ODDITIES}}}'


def create(server: Server, resource: Resource, obj: Obj, source: str = "") -> None:
    """Create an object as `json.dumps` writes it; null in its configuration stands for the parameters of a source."""
    body = json.dumps(resource.typed(obj)).replace('"parameters": null', f'"parameters": {parameters(source)}')
    answer = send(server, "POST", resource.path("default"), body.encode())
    assert answer.status == 201, answer.body


def claim_spec(release: Version) -> Obj:
    """Return the spec of a claim for one device, configured by parameters that are to be filled in."""
    request: Obj = {"name": "gpu"}
    (request.setdefault("exactly", {}) if release >= V1_34 else request)["deviceClassName"] = "gpu"
    opaque = {"driver": "gpu.example.com", "parameters": None}
    return {"devices": {"requests": [request], "config": [{"opaque": opaque}]}}


def make_world(server: Server, release: Version) -> None:
    """Create a node with two devices, their class, and the claim `shared` and the template `own` for one each."""
    device: Obj = {} if release >= V1_34 else {"basic": {}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d1", **device}, {"name": "d2", **device}]
    spec = {"nodeName": "n", "driver": "gpu.example.com", "pool": pool, "devices": devices}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    create(server, NODES, {"metadata": {"name": "n"}, "status": status})
    send(server, "PATCH", NODES.path(name="n"), {"spec": {"taints": None}})
    create(server, resource_slices(release), {"metadata": {"name": "s"}, "spec": spec})
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": None}}]
    create(server, device_classes(release), {"metadata": {"name": "gpu"}, "spec": {"config": config}}, "class")
    create(server, resource_claims(release), {"metadata": {"name": "shared"}, "spec": claim_spec(release)}, "claim")
    template = {"metadata": {"name": "own"}, "spec": {"spec": claim_spec(release)}}
    create(server, resource_claim_templates(release), template, "template")


def add_pod(server: Server) -> None:
    """Create a pod with both claims."""
    entries = [
        {"name": "shared", "resourceClaimName": "shared"},
        {"name": "own", "resourceClaimTemplateName": "own"},
    ]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries, "terminationGracePeriodSeconds": 0}
    create(server, PODS, {"metadata": {"name": "p"}, "spec": spec})


def stored(server: Server, resource: Resource, name: str) -> bytes:
    """Return an object in protobuf, which has raw values as they are stored."""
    return send(server, "GET", resource.path("default", name), accept=PROTOBUF).body


def claim_names(server: Server) -> dict[str, str]:
    """Return the name of the claim of each entry of the pod, `shared` and `own`."""
    statuses = server.get("pods", "p")["status"]["resourceClaimStatuses"]
    return {"shared": "shared", "own": statuses[0]["resourceClaimName"]}


@pytest.fixture
def server(release: Version) -> Iterator[Server]:
    with Server(emulated_version=str(release), controllers=[*CONTROLLERS, "garbage-collector"]) as server:
        make_world(server, release)
        yield server


@every_release
def test_claims_keep_their_parameters(server: Server, release: Version) -> None:
    """Allocated, reserved and freed, a claim keeps the parameters of its class, itself or its template."""
    claims = resource_claims(release)
    add_pod(server)
    wait_until(lambda: server.get("pods", "p")["spec"].get("nodeName"))
    names = claim_names(server)
    for entry, source in (("shared", "claim"), ("own", "template")):
        body = stored(server, claims, names[entry])
        assert [body.count(parameters(each).encode()) for each in (source, "class")] == [2, 1]
        assert b"resource.kubernetes.io/delete-protection" in body
    send(server, "PATCH", PODS.path("default", "p") + "/status", {"status": {"phase": "Succeeded"}})
    wait_until(lambda: "finalizers" not in server.get("resourceclaims", "shared")["metadata"])
    wait_until(lambda: [claim["metadata"]["name"] for claim in server.list("resourceclaims")] == ["shared"])
    body = stored(server, claims, "shared")
    assert [body.count(parameters(each).encode()) for each in ("claim", "class")] == [1, 0]


@pytest.mark.parametrize("release", [NEWEST])
def test_pods_are_evicted_from_tainted_devices(release: Version) -> None:
    """Pods whose claims have parameters are evicted, and their claims freed, deleted and collected."""
    gates = {"DRADeviceTaints": True}
    controllers = [*CONTROLLERS, "garbage-collector", "device-taint-eviction"]
    with Server(emulated_version=str(release), feature_gates=gates, controllers=controllers) as server:
        make_world(server, release)
        add_pod(server)
        wait_until(lambda: server.get("pods", "p")["spec"].get("nodeName"))
        slices = resource_slices(release)
        taints = [{"key": "broken", "effect": "NoExecute"}]
        tainted = [{"name": name, "taints": taints} for name in ("d1", "d2")]
        assert exchange(server, "PATCH", slices.path(name="s"), {"spec": {"devices": tainted}})[0] == 200
        wait_until(lambda: server.list("pods") == [])
        wait_until(lambda: [claim["metadata"]["name"] for claim in server.list("resourceclaims")] == ["shared"])
        wait_until(lambda: not server.get("resourceclaims", "shared").get("status"))
        assert parameters("claim").encode() in stored(server, resource_claims(release), "shared")
