"""Rules that are new in 1.37 and written by hand; source: recorded answers of kube-apiserver 1.37.2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.kinds.resource import deviceclass
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.releases.version import V1_36, V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path

GATES = (
    *("DRADerivedAttributes", "DRAFractionalCapacityRange", "DRAListTypeAttributes", "DRANodeAllocatableResources"),
    *("DRAPartitionableDevicesType", "DRAResourcePoolStatus", "InPlacePodVerticalScalingMemoryBackedVolumes"),
)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices?dryRun=All"
POOL_REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    gates = dict.fromkeys(GATES, True)
    with Server(emulated_version="1.37", feature_gates=gates, runtime_config={"api/all": True}) as running:
        yield running


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.status == 422, answer.json()
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


def pool_slice(device: Obj, **spec: Any) -> Obj:
    pool = {"name": "pool-a", "generation": 1, "resourceSliceCount": 1}
    common = {"driver": "gpu.example.com", "nodeName": "node1", "pool": pool}
    return {"metadata": {"name": "s"}, "spec": {**common, "devices": [{"name": "dev-0", **device}], **spec}}


def cores(default: str, *values: str) -> Obj:
    """Return a shared device of which claims may ask for some amounts."""
    policy = {"default": default, "validValues": list(values)}
    return {"allowMultipleAllocations": True, "capacity": {"cores": {"value": "4", "requestPolicy": policy}}}


USES = {"consumesCounters": [{"counterSet": "set-1", "counters": {"memory": {"value": "1Gi"}}}]}


@pytest.mark.parametrize(
    "accepted",
    [
        pool_slice({"attributes": {"a": {"string": ""}}}),
        pool_slice(
            {"attributes": {"profile": {"string": ""}}, **USES}, partitionTypeAttribute="gpu.example.com/profile"
        ),
        pool_slice(cores("1", "1", "1000m")),
        pool_slice(cores("500m", "500m", "0.5")),
        pool_slice(cores("1200m", "1200m", "1300m")),
    ],
)
def test_slices_that_are_accepted(server: Server, accepted: Obj) -> None:
    """An empty text is a value, and amounts are told apart by the decimals that were sent."""
    answer = send(server, "POST", SLICES, accepted)
    assert answer.status == 201, answer.json()


@pytest.mark.parametrize(
    ("value", "shown"),
    [("1", "1"), ("1000m", "1.000"), ("500m", "0.500"), ("1e0", "1"), ("0.5", "0.5"), ("2000u", "0.002000")],
)
def test_equal_amounts_are_duplicates(server: Server, value: str, shown: str) -> None:
    """Equal amounts are shown with the decimals that were sent."""
    answer = send(server, "POST", SLICES, pool_slice(cores(value, value, value)))
    path = "spec.devices[0].capacity[cores].requestPolicy.validValues[1]"
    assert causes(answer) == [(path, f'Duplicate value: "{shown}"')]


def derived(*expressions: str) -> Obj:
    """Return a claim with derived attributes of one request."""
    attributes = [{"name": f"a.b/c{i}", "expression": text} for i, text in enumerate(expressions)]
    exactly = {"deviceClassName": "c", "derivedAttributes": attributes}
    constraints = [{"matchAttribute": attribute["name"]} for attribute in attributes]
    devices = {"requests": [{"name": "r0", "exactly": exactly}], "constraints": constraints}
    return {"metadata": {"name": "x"}, "spec": {"devices": devices}}


COSTLY = "device.attributes.exists(d, device.attributes.exists(e, device.attributes[d].exists(a, a == e)))"


def test_all_derived_attributes_together_have_a_limit(server: Server) -> None:
    """Each may cost as much as all of them together."""
    total = "Forbidden: too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
    path = f"{CLAIMS}?dryRun=All"
    assert send(server, "POST", path, derived(*[COSTLY] * 2)).status == 201
    assert causes(send(server, "POST", path, derived(*[COSTLY] * 3))) == [("spec.devices", total)]


@pytest.mark.parametrize(("release", "errors"), [(V1_36, 1), (V1_37, 0)])
def test_stored_expressions_are_left_alone(release: Version, errors: int) -> None:
    """A stored expression is not compiled again: it may even be one that the release does not know."""
    spec = {"selectors": [{"cel": {"expression": "nope"}}]}
    assert len(deviceclass.validate_spec(spec, Path("spec"), ReleaseRules.of(release), spec)) == errors
    assert len(deviceclass.validate_spec(spec, Path("spec"), ReleaseRules.of(release))) == 1


def test_tolerations_of_allocated_devices(server: Server) -> None:
    exactly = {"deviceClassName": "c"}
    claim = {"metadata": {"name": "t"}, "spec": {"devices": {"requests": [{"name": "r0", "exactly": exactly}]}}}
    stored = send(server, "POST", CLAIMS, claim).json()
    result: Obj = {"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d"}
    result["tolerations"] = [{"key": "a", "operator": "Equal", "value": "x y"}]
    stored["status"] = {"allocation": {"devices": {"results": [result]}}}
    [(field, message)] = causes(send(server, "PUT", f"{CLAIMS}/t/status?dryRun=All", stored))
    assert field == "status.allocation.devices.results[0].tolerations[0].value"
    assert message.startswith('Invalid value: "x y": a valid label must be an empty string or consist of')


def test_status_of_pools(server: Server) -> None:
    """A type of condition that occurs twice is reported once."""
    stored = send(server, "POST", POOL_REQUESTS, {"metadata": {"name": "q"}, "spec": {"driver": "a.b"}}).json()
    condition = {"type": "A", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": None}
    condition["lastTransitionTime"] = "2024-05-06T07:08:09Z"
    stored["status"] = {"poolCount": 0, "conditions": [condition] * 2}
    answer = send(server, "PUT", f"{POOL_REQUESTS}/q/status?dryRun=All", stored)
    assert causes(answer) == [("status.conditions[1]", 'Duplicate value: "A"')]


def test_default_partition_type_needs_its_gate() -> None:
    """While the gate is off the field is dropped, whatever it says."""
    request = {"metadata": {"name": "q"}, "spec": {"driver": "a.b", "defaultPartitionTypeAttribute": "plain"}}
    gates = {"DRAResourcePoolStatus": True}
    with Server(emulated_version="1.37", feature_gates=gates, runtime_config={"api/all": True}) as server:
        created = send(server, "POST", POOL_REQUESTS, request)
    assert (created.status, created.json()["spec"]) == (201, {"driver": "a.b", "limit": 100})


def test_pods_with_claims(server: Server) -> None:
    """Pods can be resized that use what a node can allocate, and errors say how the status of a pod names a claim."""
    containers = [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]
    spec = {"containers": containers, "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim-a"}]}
    stored = send(server, "POST", PODS, {"metadata": {"name": "p"}, "spec": spec}).json()
    mapping = [{"name": "cpu", "quantity": "2"}]
    use = {"resourceClaimName": "claim-a", "containers": ["c"], "mapping": mapping}
    stored["status"]["nodeAllocatableResourceClaimStatuses"] = [use]
    stored = send(server, "PUT", f"{PODS}/p/status", stored).json()
    assert stored["status"]["nodeAllocatableResourceClaimStatuses"] == [use]
    stored["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    quality = 'Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing'
    assert causes(send(server, "PUT", f"{PODS}/p/resize?dryRun=All", stored)) == [("spec", quality)]

    health = {"name": "claim:gpu/req", "resources": [{"resourceID": "d", "health": "Healthy"}]}
    stored["status"]["containerStatuses"] = [
        {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        | {"allocatedResourcesStatus": [health]}
    ]
    [(field, message)] = causes(send(server, "PUT", f"{PODS}/p/status?dryRun=All", stored))
    assert field == "status.containerStatuses[0].allocatedResourcesStatus[0].name"
    assert message.endswith(
        "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
        "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
    )


LIMITED = {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}
VOLUMES = [
    LIMITED,
    {"name": "disk", "emptyDir": {"sizeLimit": "64Mi"}},
    {"name": "free", "emptyDir": {"medium": "Memory"}},
    {"name": "config", "configMap": {"name": "x", "optional": True}},
]
WHOLE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
NO_OTHERS = "Forbidden: only sizeLimit of memory-backed emptyDir volumes is mutable on resize"


@pytest.fixture(scope="module")
def resizable(server: Server) -> str:
    """Return the path of a pod on a node, with volumes, resources as a whole and a device that uses the node."""
    declared = ["InPlacePodLevelResourcesVerticalScaling"]
    allocatable = {"cpu": "4", "memory": "8Gi"}
    for name in ("old", "new"):
        status = {"allocatable": allocatable, "declaredFeatures": list(declared)}
        send(server, "POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        declared.append("InPlacePodVerticalScalingMemoryBackedVolumes")
        amounts = {"requests": {"cpu": "500m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
        container = {"name": "c", "image": "i", "resources": {**amounts, "claims": [{"name": "d"}]}}
        spec = {
            "nodeName": name,
            "containers": [container],
            "volumes": VOLUMES,
            "resources": WHOLE,
            "resourceClaims": [{"name": "d", "resourceClaimName": "c1"}],
        }
        created = send(server, "POST", PODS, {"metadata": {"name": f"on-{name}"}, "spec": spec})
        assert created.status == 201, created.json()
        use = {
            "resourceClaimName": "c1",
            "containers": ["c"],
            "mapping": [{"name": "cpu", "quantity": "500m"}],
            "overhead": [{"name": "memory", "perPod": "256Mi", "perContainer": "128Mi"}],
        }
        patch = {"status": {"nodeAllocatableResourceClaimStatuses": [use]}}
        answer = send(server, "PATCH", f"{PODS}/on-{name}/status", patch, "application/merge-patch+json")
        assert answer.status == 200, answer.json()
    return f"{PODS}/on-new/resize?dryRun=All"


def resized(server: Server, path: str, **spec: Any) -> Any:
    return send(server, "PATCH", path, {"spec": spec}, "application/merge-patch+json")


def changed(index: int, **fields: Any) -> list[Obj]:
    """Return the volumes with other fields of one."""
    volume = {**VOLUMES[index], **fields}
    return [*VOLUMES[:index], volume, *VOLUMES[index + 1 :]]


@pytest.mark.parametrize(
    ("volumes", "field", "message"),
    [
        (VOLUMES[:3], "spec.volumes", "Forbidden: volumes may not be added or removed on resize"),
        (
            [VOLUMES[1], VOLUMES[0], *VOLUMES[2:]],
            "spec.volumes[0].name",
            "Forbidden: volumes may not be renamed or reordered on resize",
        ),
        (changed(0, emptyDir={"sizeLimit": "64Mi"}), "spec.volumes[0]", NO_OTHERS),
        (changed(3, configMap={"name": "y", "optional": True}), "spec.volumes[3]", NO_OTHERS),
        (
            changed(0, emptyDir={"medium": "Memory"}),
            "spec.volumes[0].emptyDir.sizeLimit",
            "Forbidden: adding or removing sizeLimit on an existing volume is not allowed",
        ),
        (
            changed(2, emptyDir={"medium": "Memory", "sizeLimit": "1Mi"}),
            "spec.volumes[2].emptyDir.sizeLimit",
            "Forbidden: adding or removing sizeLimit on an existing volume is not allowed",
        ),
        (
            changed(1, emptyDir={"sizeLimit": "128Mi"}),
            "spec.volumes[1].emptyDir.sizeLimit",
            "Forbidden: sizeLimit is only mutable for memory-backed emptyDir volumes",
        ),
    ],
)
def test_only_limits_of_volumes_in_memory_are_resized(
    server: Server, resizable: str, volumes: list[Obj], field: str, message: str
) -> None:
    """A resize changes no volume but the limit of one in memory (`InPlacePodVerticalScalingMemoryBackedVolumes`)."""
    assert (field, message) in causes(resized(server, resizable, volumes=volumes))


def test_limit_of_a_volume_in_memory_is_resized(server: Server, resizable: str) -> None:
    """The node has to declare the feature."""
    volumes = changed(0, emptyDir={"medium": "Memory", "sizeLimit": "128Mi"})
    answer = resized(server, resizable, volumes=volumes)
    assert answer.status == 200, answer.json()
    assert answer.json()["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "128Mi"
    refused = resized(server, resizable.replace("on-new", "on-old"), volumes=volumes)
    assert refused.status == 403
    assert refused.json()["message"] == (
        'pods "on-old" is forbidden: pod update requires features InPlacePodVerticalScalingMemoryBackedVolumes which '
        'are not available on node "old"'
    )


@pytest.mark.parametrize(
    ("whole", "shown", "message"),
    [
        (
            {"requests": {"cpu": "900m"}},
            '{"Limits":{"cpu":"2","memory":"2Gi"},"Requests":{"cpu":"900m","memory":"1Gi"},"Claims":null}',
            "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA "
            "requests",
        ),
        (
            {"requests": {"memory": "512Mi"}, "limits": {"memory": "600Mi"}},
            '{"Limits":{"cpu":"2","memory":"600Mi"},"Requests":{"cpu":"1","memory":"512Mi"},"Claims":null}',
            "pod level limit for memory is insufficient to cover the limit and DRA overhead for container c",
        ),
    ],
)
def test_resized_pods_cover_what_devices_use(
    server: Server, resizable: str, whole: Obj, shown: str, message: str
) -> None:
    """Requests and limits of a pod as a whole stay large enough for its containers and devices."""
    answer = resized(server, resizable, resources=whole)
    assert causes(answer) == [("spec.resources", f"Invalid value: {shown}: {message}")]
    assert resized(server, resizable, resources={"requests": {"memory": "512Mi"}}).status == 200


@pytest.mark.parametrize(("method", "media"), [("PUT", None), ("PATCH", "application/apply-patch+yaml")])
def test_objects_created_by_an_update_lose_system_metadata(server: Server, method: str, media: str | None) -> None:
    """An object that PUT or apply creates loses what only the server sets, as one that POST creates does."""
    name = f"by-{method.lower()}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{name}?fieldManager=m"
    sent = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "selfLink": "/x"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, **sent}}
    for dry_run in ("&dryRun=All", ""):
        answer = send(server, method, path + dry_run, lease, media)
        assert answer.status == 201, answer.json()
        assert not answer.json()["metadata"].keys() & sent


def test_equal_errors_are_reported_where_they_are_first(server: Server) -> None:
    """Common rules find what the rules of the kind find again; each error is told once, in the order of the former."""
    path = "/apis/apps/v1/namespaces/default/replicasets"
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    stored = send(
        server,
        "POST",
        path,
        {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
    ).json()
    stored["metadata"] |= {"finalizers": ["Not valid!"], "labels": {"a": "not valid!"}}
    refused = causes(send(server, "PUT", f"{path}/r", stored))
    assert [field for field, _ in refused] == ["metadata.labels", "metadata.finalizers", "metadata.finalizers[0]"]
