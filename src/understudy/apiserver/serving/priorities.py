"""The priorities of API services, by which discovery sorts groups and versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj


class Priorities(NamedTuple):
    """The priorities of an API service. Higher ones come first."""

    group: int
    version: int

    @staticmethod
    def of(spec: Obj) -> Priorities:
        """Return the priorities in the `spec` of an API service."""
        return Priorities(spec["groupPriorityMinimum"], spec["versionPriority"])


OWN = Priorities(20001, 0)  # of the group of API services itself, which has none (`APIRegistrationGroupPriority`)
DEFINED = Priorities(1000, 100)  # of the versions of custom resource definitions


@cache
def built_in(version: Version) -> Mapping[tuple[str, str], Priorities]:
    """Return the priorities of the group-versions of a release, by group and version."""
    priorities = {("apiregistration.k8s.io", "v1"): OWN}
    for obj in read_release_file(version, "initial_objects.json"):
        if obj["kind"] == "APIService":
            spec = obj["spec"]
            priorities[spec.get("group", ""), spec["version"]] = Priorities.of(spec)
    return priorities
