"""The objects that a new server holds, as they were recorded of each release."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.server.bootstrap.initial_objects import initial_objects
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.serving.release import Release, releases
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import split_api_version

NOW = "2026-01-02T03:04:05Z"
NEWEST = releases()[-1]


def names(release: Release, **gates_on: bool) -> dict[str, set[str]]:
    """Return {kind: names} of the initial objects."""
    gates = Gates.of(release.version, gates_on)
    found: dict[str, set[str]] = {}
    for obj in initial_objects(release, gates, NOW, 6443):
        found.setdefault(obj["kind"], set()).add(obj["metadata"]["name"])
    return found


@pytest.mark.parametrize("release", releases(), ids=str)
def test_initial_objects_are_those_of_what_is_served(release: Version) -> None:
    """Each group-version but that of APIServices has one; a kind that is not served has no objects."""
    full = Release.of(release)
    versions = {f"{version}.{group.name}" for group in full.groups for version in group.versions}
    assert names(full)["APIService"] == versions - {"v1.apiregistration.k8s.io"}
    assert names(full, MultiCIDRServiceAllocator=True).keys() >= {
        "ServiceCIDR",
        "IPAddress",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "Service",
    }
    config = {"api/all": False, "apps/v1": True, "apiregistration.k8s.io/v1": True, "v1": True}
    few = names(ServerConfig(emulated_version=str(release), runtime_config=config).release)
    assert few.keys() == {"APIService", "ConfigMap", "Namespace", "Service"}
    assert few["APIService"] == {"v1.", "v1.apps"}


@pytest.mark.parametrize("release", releases(), ids=str)
def test_initial_objects_are_recorded_as_they_are_stored(release: Version) -> None:
    """No initial object is in a version that differs from the internal form: they are stored without conversion."""
    full = Release.of(release)
    gates = Gates.of(release, {"MultiCIDRServiceAllocator": True})
    for obj in initial_objects(full, gates, NOW, 6443):
        group, version = split_api_version(obj["apiVersion"])
        kind = full.kind(group, obj["kind"])
        assert kind is not None
        assert version not in kind.behavior.conversions


def test_initial_objects_are_of_this_server() -> None:
    """Initial objects have the times of the server's start, and the service its port; a later server changes none."""
    objects = list(initial_objects(Release.of(NEWEST), Gates.of(NEWEST, {}), NOW, 6443))
    list(initial_objects(Release.of(NEWEST), Gates.of(NEWEST, {}), "2027-01-02T03:04:05Z", 6444))

    def times(node: Any) -> set[Any]:
        if isinstance(node, dict):
            own = {node[name] for name in ("time", "creationTimestamp", "lastTransitionTime") if name in node}
            return own.union(*(times(value) for value in node.values()))
        return set().union(*(times(value) for value in node)) if isinstance(node, list) else set()

    assert times(objects) == {NOW}
    (service,) = [obj for obj in objects if obj["kind"] == "Service"]
    assert service["spec"]["ports"][0]["targetPort"] == 6443
    (tracking,) = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    assert tracking["data"] == {"since": "2026-01-02"}
