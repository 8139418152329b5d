"""Plugins of groups of pods, as 1.36 answered: they are of a workload that exists, and protected by a finalizer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import Response, send
from understudy import Server
from understudy.machinery.types import Obj

BASE = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
POLICY = {"gang": {"minCount": 2}}

pytestmark = pytest.mark.apiserver(emulated_version="1.36", feature_gates={"GenericWorkload": True})


def create(apiserver: Server, kind: str, name: str, spec: Obj, **metadata: Any) -> Response:
    obj = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": kind, "metadata": {"name": name, **metadata}}
    return send(apiserver, "POST", f"{BASE}/{kind.lower()}s", obj | {"spec": spec})


def workload(apiserver: Server, name: str, **metadata: Any) -> None:
    template = {"name": "t", "schedulingPolicy": POLICY}
    response = create(apiserver, "Workload", name, {"podGroupTemplates": [template]}, **metadata)
    assert response.status == 201, response.body


def group(apiserver: Server, workload_name: str, template: str) -> Response:
    reference = {"workload": {"workloadName": workload_name, "podGroupTemplateName": template}}
    return create(apiserver, "PodGroup", "g", {"schedulingPolicy": POLICY, "podGroupTemplateRef": reference})


def test_group_is_protected_until_its_finalizer_goes(apiserver: Server) -> None:
    """A new group of a template that exists gets a finalizer, and stays until that is removed."""
    workload(apiserver, "known")
    created = group(apiserver, "known", "t")
    assert created.status == 201, created.body
    assert created.json()["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    assert "deletionTimestamp" in send(apiserver, "DELETE", f"{BASE}/podgroups/g").json()["metadata"]
    send(apiserver, "PATCH", f"{BASE}/podgroups/g", {"metadata": {"finalizers": None}})
    assert send(apiserver, "GET", f"{BASE}/podgroups/g").status == 404


@pytest.mark.parametrize(
    ("name", "template", "why"),
    [
        ("present", "u", 'PodGroupTemplate "u" not found in Workload "present"'),
        ("ending", "t", 'Workload "ending" is being deleted'),
        ("missing", "t", 'Workload "missing" not found'),
    ],
)
def test_group_needs_template_of_workload(apiserver: Server, name: str, template: str, why: str) -> None:
    """A group is refused whose workload is missing or being deleted, or does not have the template."""
    workload(apiserver, "present")
    workload(apiserver, "ending", finalizers=["a/b"])
    send(apiserver, "DELETE", f"{BASE}/workloads/ending")
    response = group(apiserver, name, template)
    text = f'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: {why}'
    assert (response.status, response.json()["message"]) == (403, text)
    for workload_name in ("present", "ending"):
        send(apiserver, "PATCH", f"{BASE}/workloads/{workload_name}", {"metadata": {"finalizers": None}})
        send(apiserver, "DELETE", f"{BASE}/workloads/{workload_name}")
