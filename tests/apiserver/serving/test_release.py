"""Releases: the kinds that recorded discovery names."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST, every_release
from understudy.apiserver.serving.release import Release, UnknownReleaseError, releases, storage_version_hash
from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.types import GroupVersionKind


def test_kind_has_what_discovery_lists() -> None:
    """Names, scope, verbs, subresources and columns of a kind are those of the real server."""
    pods = Release.of(NEWEST).resource("", "v1", "pods")
    assert pods is not None
    assert (pods.name, pods.singular, pods.namespaced, pods.short_names, pods.categories) == (
        "Pod",
        "pod",
        True,
        ("po",),
        ("all",),
    )
    assert pods.has_status
    assert pods.subresources["status"].verbs == ("get", "patch", "update")
    assert pods.subresources["eviction"].kind == GroupVersionKind("policy", "v1", "Eviction")
    assert [column["name"] for column in pods.columns["v1"]][:3] == ["Name", "Ready", "Status"]
    assert pods.struct("v1").type_name == "Pod"


@pytest.mark.parametrize(
    ("release", "versions", "stored"),
    [(V1_31, ("v1alpha3",), "v1alpha3"), (V1_32, ("v1beta1", "v1alpha3"), "v1beta1")],
)
def test_versions_share_one_kind(release: Version, versions: tuple[str, ...], stored: str) -> None:
    """All versions of a resource are one kind, the preferred version first."""
    facts = Release.of(release)
    claim = facts.kind("resource.k8s.io", "ResourceClaim")
    assert claim is not None
    assert claim.versions == versions
    assert claim.storage_version == stored
    assert {facts.resource("resource.k8s.io", version, "resourceclaims") for version in versions} == {claim}


def test_events_of_both_groups_are_stored_as_one() -> None:
    """Events of events.k8s.io are stored as core events."""
    events = Release.of(NEWEST).kind("events.k8s.io", "Event")
    assert events is not None
    assert events.stored == GroupVersionKind("", "v1", "Event")
    assert storage_version_hash(events.stored) == "r2yiGXH7wu8="


def test_definitions_keep_the_storage_hash_of_v1beta1() -> None:
    """Custom resource definitions have the storage hash of v1beta1, which no release serves any more."""
    definitions = Release.of(NEWEST).kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert definitions is not None
    assert storage_version_hash(definitions.stored) == "jfWCUB31mvA="


def test_virtual_resources_are_not_stored() -> None:
    """Reviews and bindings can only be created, component statuses only be read: none is stored."""
    virtual = {kind.resource for kind in Release.of(NEWEST).kinds if kind.virtual}
    assert virtual == {
        "bindings",
        "componentstatuses",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }


@every_release
def test_release_has_recorded_facts(release: Version) -> None:
    """A release tells its version and its health checks."""
    facts = Release.of(release)
    assert facts.version_info["gitVersion"].startswith(f"v{release}.")
    assert all("ping" in facts.health_checks[name] for name in ("healthz", "livez", "readyz"))


def test_release_without_schemas_is_unknown() -> None:
    """A release that has no schemas is an error that names the known ones."""
    assert releases()[:2] == (V1_31, V1_32)
    with pytest.raises(UnknownReleaseError, match=r"unknown release '1\.7': there are 1\.31"):
        Release.named("1.7")
