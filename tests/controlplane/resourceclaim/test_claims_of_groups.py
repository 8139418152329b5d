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


def test_name_of_a_claim_leaves_the_others() -> None:
    """A pod's status names its own claim still when that of its group, which was made later, is named as well."""
    groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    pods = "/api/v1/namespaces/default/pods"
    of_group, own = ({"name": name, "resourceClaimTemplateName": f"for-{name}"} for name in ("group", "own"))
    with Server(emulated_version="1.37", controllers=["resourceclaim"], feature_gates=GATES) as server:

        def template(name: str) -> None:
            body = {"metadata": {"name": f"for-{name}"}, "spec": {"spec": SPEC}}
            assert exchange(server, "POST", TEMPLATES, body)[0] == 201

        def names() -> list[str]:
            status = exchange(server, "GET", f"{pods}/p")[1]["status"]
            return [entry["name"] for entry in status.get("resourceClaimStatuses") or ()]

        template("own")
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [of_group]}}
        assert exchange(server, "POST", groups, group)[0] == 201
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGroup": {"podGroupName": "g"},
            "resourceClaims": [own, of_group],
        }
        assert exchange(server, "POST", pods, {"metadata": {"name": "p"}, "spec": spec})[0] == 201
        assert wait_until(names, bool) == ["own"]
        template("group")
        assert wait_until(names, lambda named: "group" in named) == ["group", "own"]
