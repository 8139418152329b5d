"""Checks that a claim belongs to a pod, with the texts of each release."""

from __future__ import annotations

import re

import pytest

from understudy.controlplane.client.pod_claims import OwnerError, check_owner
from understudy.machinery.releases.version import V1_35, V1_36, Version
from understudy.machinery.types import Obj

GROUP = {"schedulingGroup": {"podGroupName": "g"}}
NEITHER = "Pod default/p (neither Pod nor PodGroup g is the owner)"


def pod(**spec: object) -> Obj:
    return {"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": spec}


def claim(pod: str) -> Obj:
    """Return a claim that was made for a pod, whose uid is its name."""
    return _claim({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod})


def group_claim(group: str, api_version: str = "scheduling.k8s.io/v1alpha2") -> Obj:
    """Return a claim that was made for a group of pods."""
    return _claim({"apiVersion": api_version, "kind": "PodGroup", "name": group, "uid": group})


def _claim(owner: Obj) -> Obj:
    return {"metadata": {"name": "c", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]}}


@pytest.mark.parametrize(
    ("user", "made"),
    [(pod(), claim("p")), (pod(**GROUP), group_claim("g"))],
    ids=["pod", "group"],
)
def test_claims_of_a_pod_and_of_its_group(user: Obj, made: Obj) -> None:
    """A claim belongs to the pod that it was made for, or to all pods of the group that it was made for."""
    check_owner(user, made, V1_36, groups=True)


@pytest.mark.parametrize(
    ("user", "made", "release", "groups", "text"),
    [
        (pod(), claim("q"), V1_35, False, "pod default/p (pod is not owner)"),
        (pod(), claim("q"), V1_36, False, "Pod default/p (Pod is not owner)"),
        (pod(**GROUP), group_claim("g"), V1_36, False, "Pod default/p (Pod is not owner)"),
        (pod(**GROUP), group_claim("h"), V1_36, True, NEITHER),
        (pod(**GROUP), group_claim("g", "example.com/v1"), V1_36, True, NEITHER),
    ],
    ids=["1.35", "1.36", "groups are off", "other group", "other kind of group"],
)
def test_claims_of_others(user: Obj, made: Obj, release: Version, groups: bool, text: str) -> None:
    """A claim that was made for another object is refused in the words of the release."""
    expected = f"ResourceClaim default/c was not created for {text}"
    with pytest.raises(OwnerError, match=f"^{re.escape(expected)}$"):
        check_owner(user, made, release, groups)
