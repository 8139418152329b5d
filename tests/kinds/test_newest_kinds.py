"Rules of built-in kinds that are new in 1.37, most outside resource.k8s.io; source: kube-a…"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange
from tests.kinds.rows import changed
from understudy import Server
from understudy.machinery.types import Obj, nested_field

GATES = ("CSIVolumeHealth", "DRAResourcePoolStatus", "EvictionRequestAPI", "GenericWorkload")
NS = "namespaces/default"
PODS, CLAIMS, NODES = f"/api/v1/{NS}/pods", f"/api/v1/{NS}/persistentvolumeclaims", "/api/v1/nodes"
SETS = f"/apis/apps/v1/{NS}/statefulsets"
JOBS, CRON_JOBS = (f"/apis/batch/v1/{NS}/{name}" for name in ("jobs", "cronjobs"))
SCALERS = f"/apis/autoscaling/v2/{NS}/horizontalpodautoscalers"
CSI_NODES, STORAGE_CLASSES = (f"/apis/storage.k8s.io/v1/{name}" for name in ("csinodes", "storageclasses"))
POLICIES, EVICTIONS = (
    f"/apis/networking.k8s.io/v1/{NS}/networkpolicies",
    f"/apis/lifecycle.k8s.io/v1alpha1/{NS}/evictionrequests",
)
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POOL_REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"

UID = "9b1e3f0a-0000-4000-8000-000000000000"
POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
LABELS = {"a": "b"}
HOOK: Obj = {
    "name": "a.b.c",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"service": {"name": "s", "namespace": "n"}},
}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
JOB_SPEC = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VALID: dict[str, Obj] = {
    PODS: {"spec": POD_SPEC},
    CLAIMS: {"spec": CLAIM_SPEC},
    NODES: {},
    SETS: {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}},
    JOBS: {"spec": JOB_SPEC},
    CRON_JOBS: {"spec": {"schedule": "@daily", "jobTemplate": {"spec": JOB_SPEC}}},
    SCALERS: {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    },
    CSI_NODES: {"spec": {"drivers": []}},
    STORAGE_CLASSES: {"provisioner": "a.b"},
    POLICIES: {"spec": {}},
    EVICTIONS: {"spec": {"target": {"pod": {"name": "x", "uid": UID}}, "requester": "a.b/c", "intent": "Eviction"}},
    POOL_REQUESTS: {"spec": {"driver": "a.b"}},
    WEBHOOKS: {"webhooks": [HOOK]},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    gates = dict.fromkeys(GATES, True)
    with Server(emulated_version="1.37", feature_gates=gates, runtime_config={"api/all": True}) as running:
        create(running, *VALID)
        yield running


@pytest.fixture(scope="module")
def plain() -> Iterator[Server]:
    """Serve without any gates."""
    with Server(emulated_version="1.37") as running:
        create(running, CLAIMS, CSI_NODES)
        yield running


def create(server: Server, *paths: str) -> None:
    for path in paths:
        code, answer = exchange(server, "POST", path, {"metadata": {"name": "x"}, **VALID[path]})
        assert code == 201, answer


def sent(server: Server, path: str, *changes: Any) -> tuple[int, Any]:
    """Create a changed object, or update x or its status, as a dry run."""
    base = next(each for each in VALID if path.startswith(each))
    if path == base:
        obj = {"metadata": {"name": "y"}, **VALID[base]}
        return exchange(server, "POST", f"{path}?dryRun=All", changed(obj, list(changes)))
    if path.endswith("/binding"):
        return exchange(
            server, "POST", f"{path}?dryRun=All", changed({"metadata": {"name": "x"}, "target": {}}, list(changes))
        )
    stored = exchange(server, "GET", f"{base}/x")[1]
    return exchange(server, "PUT", f"{path}?dryRun=All", changed(stored, list(changes)))


DEGRADED: Obj = {"status": "StorageDegraded", "reason": "R"}
HEALTH: Obj = {"name": "a.b", "healthConditions": [DEGRADED]}
TOO_LONG = [{**DEGRADED, "reason": "r" * 257, "message": "m" * 1025}]
BAD = [{}, {"status": "S", "reason": "r r", "accessMode": "A", "volumeMode": "V"}]
WINDOWS = [["spec.os", {"name": "windows"}], ["spec.hostPID", True], ["spec.hostIPC", True]]
LONGEST = 90  # of a text that is compared
REFUSED: list[tuple[str, list[Any], list[str]]] = [
    (
        f"{SETS}/x",
        [["spec.serviceName", "n"], ["spec.podManagementPolicy", "Parallel"]],
        [
            'spec.serviceName: Invalid value: "n": field is immutable',
            'spec.podManagementPolicy: Invalid value: "Parallel": field is immutable',
        ],
    ),
    (
        f"{SETS}/x",
        [["spec.selector.matchLabels.c", "d"], ["spec.template.metadata.labels.c", "d"]],
        ['spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'],
    ),
    (
        f"{SETS}/x",
        [["spec.volumeClaimTemplates", [{"metadata": {"name": "v"}, "spec": CLAIM_SPEC}]]],
        ['spec.volumeClaimTemplates: Invalid value: [{"name":"v","Spec":{"AccessModes":["ReadWriteOn…'],
    ),
    (
        f"{JOBS}/x",
        [["spec.parallelism", -1], ["spec.completionMode", "Indexed"]],
        [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            'spec.completionMode: Invalid value: "Indexed": field is immutable',
        ],
    ),
    (
        PODS,
        [["spec.shareProcessNamespace", True], ["spec.hostPID", True], ["spec.securityContext", {"runAsUser": -1}]],
        [
            "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclu…",
            "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot …",
        ],
    ),
    (
        PODS,
        [*WINDOWS, ["spec.securityContext", {"runAsUser": 1, "fsGroup": 2}]],
        [
            "spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
            "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            "spec.hostPID: Forbidden: cannot be set for a windows pod",
            "spec.hostIPC: Forbidden: cannot be set for a windows pod",
        ],
    ),
    (
        PODS,
        [
            ["spec.schedulingGroup", {"podGroupName": "g"}],
            ["spec.evictionResponders", [{"name": "a.b/c", "priority": 1000}]],
        ],
        ["spec.schedulingGroup: Forbidden: may not be set when evictionResponders is set"],
    ),
    (
        f"{STORAGE_CLASSES}/x",
        [["provisioner", "A_b"], ["reclaimPolicy", "Nope"]],
        [
            'reclaimPolicy: Unsupported value: "Nope": supported values: "Delete", "Retain"',
            "provisioner: Invalid value: null: field is immutable",
            "reclaimPolicy: Invalid value: null: field is immutable",
        ],
    ),
    (
        f"{CSI_NODES}/x/status",
        [["status", {"storageHealth": [HEALTH, HEALTH, {}]}]],
        ['status.storageHealth[1]: Duplicate value: "a.b"', "status.storageHealth[2].name: Required value"],
    ),
    (
        f"{CSI_NODES}/x/status",
        [["status", {"storageHealth": [{**HEALTH, "healthConditions": [DEGRADED] * 17}]}]],
        ["status.storageHealth[0].healthConditions: Too many: 17: must have at most 16 items"],
    ),
    (
        f"{CSI_NODES}/x/status",
        [["status", {"storageHealth": [{"name": "a_b", "healthConditions": BAD}]}]],
        [
            'status.storageHealth[0].name: Invalid value: "a_b": a lowercase RFC 1123 subdomain must co…',
            'status.storageHealth[0].healthConditions[0].status: Unsupported value: "": supported value…',
            "status.storageHealth[0].healthConditions[0].reason: Required value",
            'status.storageHealth[0].healthConditions[1].status: Unsupported value: "S": supported valu…',
            'status.storageHealth[0].healthConditions[1].reason: Invalid value: "r r": a condition reas…',
            'status.storageHealth[0].healthConditions[1].accessMode: Unsupported value: "A": supported …',
            'status.storageHealth[0].healthConditions[1].volumeMode: Unsupported value: "V": supported …',
        ],
    ),
    (
        f"{CSI_NODES}/x/status",
        [["status", {"storageHealth": [{"name": "a.b", "healthConditions": TOO_LONG}]}]],
        [
            "status.storageHealth[0].healthConditions[0].reason: Too long: may not be more than 256 byt…",
            "status.storageHealth[0].healthConditions[0].message: Too long: may not be more than 1024 b…",
        ],
    ),
    (
        POLICIES,
        [["spec.egress", [{"ports": [{"port": 2, "endPort": 1}]}]]],
        ["spec.egress[0].ports[0].endPort: Invalid value: 1: must be greater than or equal to `port`"],
    ),
    (
        EVICTIONS,
        [["metadata.name"], ["spec.target"]],
        [
            "metadata.name: Required value: name or generateName is required",
            'metadata.name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower cas…',
            'spec.target: Invalid value: "": must specify one of: `pod`',
        ],
    ),
    (
        POOL_REQUESTS,
        [["spec.driver", "a_b"], ["spec.limit", 0]],
        [
            'spec.driver: Invalid value: "a_b": an RFC 1123 subdomain must consist of alphanumeric char…',
            "spec.limit: Invalid value: 0: must be greater than or equal to 1",
        ],
    ),
    (f"{POOL_REQUESTS}/x", [["spec.limit", 7]], ["spec: Invalid value: null: field is immutable"]),
    (
        f"{PODS}/x/binding",
        [["target.name", "A_b"]],
        ['target.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower ca…'],
    ),
    (
        WEBHOOKS,
        [["webhooks.0.clientConfig.service.path", "é"]],
        [
            "webhooks[0].clientConfig.service.path: Invalid value: \"é\": must start with a '/'",
            'webhooks[0].clientConfig.service.path: Invalid value: "é": segment[0]: a lowercase RFC 112…',
        ],
    ),
]


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


@pytest.mark.parametrize(("path", "changes", "messages"), REFUSED)
def test_refused(server: Server, path: str, changes: list[Any], messages: list[str]) -> None:
    """Errors that the types declare are told once, after those of rules written by hand."""
    code, answer = sent(server, path, *changes)
    told = answer["details"]["causes"] if "details" in answer else [{"field": "", "message": answer["message"]}]
    assert code >= 400
    texts = [f"{cause['field']}: {cause['message']}" if cause["field"] else cause["message"] for cause in told]
    assert [shortened(text) for text in texts] == messages


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (JOBS, "spec.scheduling", {}),
        (CRON_JOBS, "spec.jobTemplate.spec.scheduling", {}),
        (NODES, "spec.podPreemptionPolicy", {}),
        (f"{CLAIMS}/x/status", "status.healthStatus", {}),
        (f"{CSI_NODES}/x/status", "status.storageHealth", [HEALTH]),
    ],
)
def test_fields_that_need_a_gate(plain: Server, path: str, field: str, value: Any) -> None:
    """While their gates are off they are dropped, and the rest is taken."""
    code, answer = sent(plain, path, [field, value])
    assert code in (200, 201), answer
    assert nested_field(answer, *field.split(".")) is None


@pytest.mark.parametrize(
    ("bundles", "generations"),
    [
        pytest.param([{}, {"caBundle": ""}, {}], [1, 2, 3], id="empty bytes are not none"),
        pytest.param([{"caBundle": ""}, {"caBundle": ""}], [1, 1], id="they stay empty once stored"),
        pytest.param([{"caBundle": ""}, {"caBundle": None}, {}], [1, 2, 2], id="null is none"),
    ],
)
def test_generation_of_webhooks(bundles: list[Obj], generations: list[int], server: Server) -> None:
    """The generation of a webhook configuration counts a caBundle that is sent empty as another one than none."""
    answer: Obj = {"metadata": {"name": "c"}}
    made: list[int] = []
    for bundle in bundles:
        metadata = {name: value for name, value in answer["metadata"].items() if name in ("name", "resourceVersion")}
        hook = {**HOOK, "clientConfig": {**HOOK["clientConfig"], **bundle}}
        method, path = ("PUT", f"{WEBHOOKS}/c") if made else ("POST", WEBHOOKS)
        _, answer = exchange(server, method, path, {"metadata": metadata, "webhooks": [hook]})
        made.append(answer["metadata"]["generation"])
    exchange(server, "DELETE", f"{WEBHOOKS}/c")
    assert made == generations


def test_generation_of_autoscalers(server: Server) -> None:
    """The generation of an autoscaler counts changes of its spec."""
    stored = exchange(server, "GET", f"{SCALERS}/x")[1]
    same = sent(server, f"{SCALERS}/x", ["metadata.labels", LABELS])[1]
    newer = sent(server, f"{SCALERS}/x", ["spec.maxReplicas", 4])[1]
    assert [each["metadata"]["generation"] for each in (stored, same, newer)] == [1, 1, 2]
