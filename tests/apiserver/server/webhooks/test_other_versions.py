"""Patches of mutating webhooks that are asked in another version than that of the request."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
REQUESTS = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
LABELS = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
NO_ANNOTATIONS = {"op": "remove", "path": "/metadata/annotations"}
EMPTY_ANNOTATION = {"op": "add", "path": "/metadata/annotations", "value": {METRICS: "[]"}}
TARGET = "/spec/targetCPUUtilizationPercentage"
OTHER_TARGET, NO_TARGET = {"op": "add", "path": TARGET, "value": 33}, {"op": "remove", "path": TARGET}


@pytest.fixture(scope="module")
def patched() -> Iterator[tuple[Server, list[Obj]]]:
    """Return a server and the operations with which its webhook, which is asked in v1, answers."""
    operations: list[Obj] = []
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        for group, resource in (
            ("autoscaling", "horizontalpodautoscalers"),
            ("certificates.k8s.io", "podcertificaterequests"),
        )
    ]
    with Server(emulated_version="1.37", runtime_config={"certificates.k8s.io/v1beta1": True}) as server:

        @server.webhook("*", mutating=True, rules=rules)
        def hook(request: Obj) -> list[Obj]:
            assert request["kind"]["version"] == "v1"
            return operations

        yield server, operations


def metric(name: str, **target: object) -> Obj:
    target = target or {"type": "Utilization", "averageUtilization": 50}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


CPU, MEMORY, RAW = metric("cpu"), metric("memory"), metric("cpu", type="AverageValue", averageValue="100m")
OTHER_CPU = metric("cpu", type="Utilization", averageUtilization=33)


@pytest.mark.parametrize(
    ("metrics", "operation", "answered"),
    [
        ([CPU], LABELS, [CPU]),
        ([CPU], NO_TARGET, [CPU]),
        ([CPU], OTHER_TARGET, [OTHER_CPU]),
        ([CPU, MEMORY], LABELS, [MEMORY, CPU]),
        ([CPU, MEMORY], NO_TARGET, 2),
        ([MEMORY], LABELS, [MEMORY, MEMORY]),
        ([MEMORY], OTHER_TARGET, [MEMORY, OTHER_CPU]),
        ([MEMORY, RAW], NO_ANNOTATIONS, [MEMORY, RAW]),
        ([MEMORY, RAW], LABELS, 3),
        ([MEMORY, RAW], EMPTY_ANNOTATION, 1),
    ],
)
def test_an_autoscaler_is_converted_into_the_one_that_exists(
    patched: tuple[Server, list[Obj]], metrics: list[Obj], operation: Obj, answered: list[Obj] | int
) -> None:
    """An autoscaler keeps metrics that neither the target nor the annotation of v1 gives.

    Of these, the first comes after those of the annotation, and the others leave metrics without a type.
    """
    server, operations = patched
    operations[:] = [operation]
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": metrics,
    }
    obj = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec}
    answer = send(server, "POST", f"{AUTOSCALERS}?dryRun=All", obj)
    if isinstance(answered, int):
        assert answer.status == 422
        assert (
            f"[spec.metrics[{answered}].type: Required value: must specify a metric source" in answer.json()["message"]
        )
    else:
        assert answer.status == 201, answer.json()
        assert answer.json()["spec"]["metrics"] == answered


def test_a_request_for_a_certificate_keeps_its_key(patched: tuple[Server, list[Obj]]) -> None:
    """A key that v1 has no field for stays as it was sent in v1beta1, also if the patch adds one."""
    server, operations = patched
    key, uid = ed25519.Ed25519PrivateKey.generate(), "00000000-0000-0000-0000-000000000001"
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    proof = {
        "pkixPublicKey": b64encode(public).decode(),
        "proofOfPossession": b64encode(key.sign(uid.encode())).decode(),
    }
    names = {"podName": "p", "serviceAccountName": "s", "nodeName": "n", "signerName": "example.com/a"}
    uids = dict.fromkeys(("podUID", "serviceAccountUID", "nodeUID"), uid)
    request = {
        "apiVersion": "certificates.k8s.io/v1beta1",
        "kind": "PodCertificateRequest",
        "metadata": {"name": "a"},
        "spec": {**names, **uids, **proof, "maxExpirationSeconds": 86400},
    }
    operations[:] = [LABELS, {"op": "add", "path": "/spec/pkixPublicKey", "value": "YQ=="}]
    answer = send(server, "POST", f"{REQUESTS}?dryRun=All", request)
    body = answer.json()
    assert answer.status == 201, body
    assert body["metadata"]["labels"] == {"a": "b"}
    assert {name: body["spec"][name] for name in proof} == proof
