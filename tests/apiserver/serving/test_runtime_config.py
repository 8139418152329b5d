"""The effect of --runtime-config, and of the feature gates that kinds need."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST, RELEASES, every_release, served
from understudy.apiserver.serving.release import Release, previews
from understudy.apiserver.serving.runtime_config import SUFFICIENT_GATES
from understudy.machinery.releases.version import V1_32, V1_36, Version

# The alpha group-versions of 1.32 that need no feature gate.
_ALPHA = {
    "storage.k8s.io": ["v1alpha1"],
    "admissionregistration.k8s.io": ["v1alpha1"],
    "coordination.k8s.io": ["v1alpha2"],
    "resource.k8s.io": ["v1alpha3"],
    "internal.apiserver.k8s.io": ["v1alpha1"],
}


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ({"api/all": False, "v1": True}, {"": ["v1"]}),
        ({"api/all": False, "api/v1": True}, {"": ["v1"]}),
        ({"api/ga": False}, {"resource.k8s.io": ["v1beta1", "v1alpha3"]}),
        ({"api/ga": False, "api/alpha": False}, {"resource.k8s.io": ["v1beta1"]}),
        ({"api/all": False, "api/alpha": True}, _ALPHA),
        ({"api/all": False, "resource.k8s.io/v1beta1": True}, {"resource.k8s.io": ["v1beta1"]}),
        ({"api/all": False, "apps/v1/deployments": True, "admission.k8s.io/v1": True}, {"apps": ["v1"]}),
    ],
)
def test_runtime_config_goes_from_general_to_specific(config: dict[str, bool], groups: dict[str, list[str]]) -> None:
    """Patterns apply first, then group-versions, then resources; what is known and not served counts for nothing."""
    left = served(V1_32, config)
    assert {group.name: list(group.versions) for group in left.groups} == groups


def test_switched_off_version_is_still_stored() -> None:
    """A kind lists its served versions only, but keeps its storage version and its types."""
    left = served(V1_32, {"resource.k8s.io/v1beta1": False, "apps/v1/daemonsets": False})
    claim = left.kind("resource.k8s.io", "ResourceClaim")
    assert claim is not None
    assert (claim.versions, claim.storage_version) == (("v1alpha3",), "v1beta1")
    assert claim.struct("v1beta1").type_name == "ResourceClaim"
    assert left.kind("apps", "DaemonSet") is None
    assert left.kind("apps", "Deployment") is not None


@pytest.mark.parametrize(
    ("release", "key"),
    [
        *((release, "discovery.k8s.io/v1beta1") for release in RELEASES),
        *((release, "batch/v1beta1") for release in RELEASES),
        *((release, "extensions/v1beta1/ingresses") for release in RELEASES),
        *((release, "apiextensions.k8s.io/v1beta1") for release in RELEASES),
        *((release, "apiregistration.k8s.io/v1beta1") for release in RELEASES),
        *((release, "imagepolicy.k8s.io/v1alpha1") for release in RELEASES),
        (V1_32, "autoscaling/v2beta2"),
    ],
)
def test_versions_that_were_removed_are_known(release: Version, key: str) -> None:
    """Versions that are not served any more can be switched on and off, and are not served."""
    everything = [list(group.versions) for group in served(release).groups]
    for on in (True, False):
        assert [list(group.versions) for group in served(release, {key: on}).groups] == everything


@pytest.mark.parametrize(
    ("release", "key", "error"),
    [
        (V1_32, "foo.example.com/v1", "unknown api groups foo.example.com"),
        (V1_36, "foo.example.com/v1", "unknown api groups foo.example.com/v1"),
        (V1_32, "meta.k8s.io/v1", "unknown api groups meta.k8s.io"),
        (V1_32, "api/v2", "unknown api groups api"),
        (V1_32, "batch/v2alpha1", "group version batch/v2alpha1 that has not been registered"),
        (V1_36, "autoscaling/v2beta2", "group version autoscaling/v2beta2 that has not been registered"),
        (V1_36, "resource.k8s.io/v1alpha2", "group version resource.k8s.io/v1alpha2 that has not been registered"),
    ],
)
def test_unknown_groups_and_versions_are_refused(release: Version, key: str, error: str) -> None:
    """Groups that a release does not know, and versions of known groups, are refused with kube-apiserver's texts."""
    with pytest.raises(ValueError, match=f"^{error}$"):
        served(release, {key: True})


@pytest.mark.parametrize("key", ["apps/v9", "apps", "apps/v1/Deployments"])
def test_wrong_runtime_config_is_refused(key: str) -> None:
    """A version that a known group never had, and a key of an unknown form, are errors."""
    with pytest.raises(ValueError, match="apps"):
        served(NEWEST, {key: True})


def test_off_by_default_is_on_request() -> None:
    """A kind that is off by default needs its feature gate, and --runtime-config unless the gate was turned on."""
    group, resource = "certificates.k8s.io", "clustertrustbundles"
    asked = {f"{group}/v1alpha1": True}
    gate = {"ClusterTrustBundle": True}
    assert served(V1_32).of_resource(group, resource) is None
    assert served(V1_32, asked).of_resource(group, resource) is None
    assert served(V1_32, asked, gate).of_resource(group, resource) is not None
    assert served(V1_32, None, gate).of_resource(group, resource) is not None
    assert served(V1_32, {f"{group}/v1alpha1": False}, gate).of_resource(group, resource) is None


@pytest.mark.parametrize("release", [*RELEASES, *previews()], ids=str)
def test_kinds_that_are_off_have_a_gate(release: Version) -> None:
    """A kind that no version serves by default is served with a feature gate, which the table of gates names."""
    on = served(release)
    off = {(group, resource) for group, _, resource in Release.of(release).off_by_default}
    assert {name for name in off - SUFFICIENT_GATES.keys() if on.of_resource(*name) is None} == set()


def test_gate_without_storage_of_its_own_is_not_needed() -> None:
    """Most kinds that are off by default are served if --runtime-config says so, whatever their feature gate."""
    for group, version, resource in (
        ("admissionregistration.k8s.io", "v1alpha1", "mutatingadmissionpolicies"),
        ("coordination.k8s.io", "v1alpha2", "leasecandidates"),
        ("internal.apiserver.k8s.io", "v1alpha1", "storageversions"),
    ):
        assert served(V1_32, {f"{group}/{version}": True}).of_resource(group, resource) is not None


def test_subresource_follows_its_gate() -> None:
    """Pods can be resized in 1.32 where InPlacePodVerticalScaling is on."""
    for on in (False, True):
        pods = served(V1_32, None, {"InPlacePodVerticalScaling": on}).of_resource("", "pods")
        assert pods is not None
        assert ("resize" in pods.subresources) is on


@every_release
def test_dynamic_resource_allocation_is_served(release: Version) -> None:
    """Every version of resource.k8s.io that a release knows is served, whatever the real server's default is."""
    everything = Release.of(release).group("resource.k8s.io")
    by_default = served(release).group("resource.k8s.io")
    assert everything is not None
    assert by_default is not None
    assert by_default.versions.keys() == everything.versions.keys()
