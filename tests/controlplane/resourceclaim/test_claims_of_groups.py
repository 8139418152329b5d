"""Claims of groups of pods, in the version of PodGroups that the controller of a release uses."""

from __future__ import annotations

import pytest

from tests.http import exchange
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}


@pytest.mark.parametrize(("release", "version"), [("1.36", "v1alpha2"), ("1.37", "v1beta1")])
def test_a_group_gets_its_claim(release: str, version: str) -> None:
    """The claim of a group is made, owned by the group, and named in its status."""
    groups = f"/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups"
    claims: list[Obj] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    with Server(emulated_version=release, controllers=["resourceclaim"], feature_gates=GATES) as server:
        assert exchange(server, "POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": SPEC}})[0] == 201
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}}
        assert exchange(server, "POST", groups, group)[0] == 201
        status = wait_until(
            lambda: exchange(server, "GET", f"{groups}/g")[1].get("status") or {},
            lambda status: "resourceClaimStatuses" in status,
        )
        [named] = status["resourceClaimStatuses"]
        path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{named['resourceClaimName']}"
        [owner] = exchange(server, "GET", path)[1]["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == (f"scheduling.k8s.io/{version}", "PodGroup", "g")
