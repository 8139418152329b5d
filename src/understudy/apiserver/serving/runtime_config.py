"""The `--runtime-config` of a server: what it serves of its release, given the feature gates too.

    served(Release.of(V1_32), {"resource.k8s.io/v1alpha3": False}, gates)  # another Release

Upstream: k8s.io/apiserver/pkg/server/resourceconfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from understudy.apiserver.serving.release import Group, Release
from understudy.kinds.declarations.kind import Kind, Subresource
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate, Gates
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease
from understudy.machinery.typeinfo.group_versions import registered
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

# Keys of --runtime-config that stand for many group-versions, in the order in which they are applied
# (k8s.io/apiserver/pkg/server/resourceconfig).
MATCHERS = {
    "api/all": regex(""),
    "api/ga": regex(r"v\d+$"),
    "api/beta": regex(r"v\d+beta\d+$"),
    "api/alpha": regex(r"v\d+alpha\d+$"),
}

# Whether the error of groups that the release does not know names their versions as well.
_NAMES_VERSIONS = ByRelease({V1_36: True, V1_31: False})

# The API group that is served in every version unless --runtime-config says otherwise, whatever the release does.
DYNAMIC_RESOURCE_ALLOCATION_GROUP = "resource.k8s.io"

# The feature gates without which a resource or subresource is not served, whatever --runtime-config says.
_NEEDED_GATES: Mapping[tuple[str, str], Gate] = {
    ("", "pods/resize"): features.IN_PLACE_POD_VERTICAL_SCALING,
    ("certificates.k8s.io", "clustertrustbundles"): features.CLUSTER_TRUST_BUNDLE,
    ("certificates.k8s.io", "podcertificaterequests"): features.POD_CERTIFICATE_REQUEST,
    ("lifecycle.k8s.io", "evictionrequests"): features.EVICTION_REQUEST_API,
    ("lifecycle.k8s.io", "evictions"): features.EVICTION_REQUEST_API,
    ("scheduling.k8s.io", "compositepodgroups"): features.COMPOSITE_POD_GROUP,
    ("scheduling.k8s.io", "podgroups"): features.GENERIC_WORKLOAD,
    ("scheduling.k8s.io", "workloads"): features.GENERIC_WORKLOAD,
    ("storagemigration.k8s.io", "storageversionmigrations"): features.STORAGE_VERSION_MIGRATOR,
}

# The feature gates that serve what is off by default if they are turned on, so that --runtime-config need not say so.
SUFFICIENT_GATES: Mapping[tuple[str, str], Gate] = {
    **_NEEDED_GATES,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): features.MUTATING_ADMISSION_POLICY,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): features.MUTATING_ADMISSION_POLICY,
    ("coordination.k8s.io", "leasecandidates"): features.COORDINATED_LEADER_ELECTION,
    ("internal.apiserver.k8s.io", "storageversions"): features.STORAGE_VERSION_API,
    ("networking.k8s.io", "ipaddresses"): features.MULTI_CIDR_SERVICE_ALLOCATOR,
    ("networking.k8s.io", "servicecidrs"): features.MULTI_CIDR_SERVICE_ALLOCATOR,
    ("storage.k8s.io", "volumeattributesclasses"): features.VOLUME_ATTRIBUTES_CLASS,
}


_SERVING_GATES = frozenset({*_NEEDED_GATES.values(), *SUFFICIENT_GATES.values()})


def served(release: Release, runtime_config: Mapping[str, bool], gates: Gates) -> Release:
    """Return a release with what a server of it serves, given its `--runtime-config` and feature gates.

    Keys are `api/all`, `api/ga`, `api/beta`, `api/alpha`, then `group/version` (`v1` and `api/v1` for the core
    group), then `group/version/resource`. Raises ValueError for groups and versions that the release does not know;
    it knows many that it serves no more. A resource that is off by default is on, too, if the feature gate that it
    needs is turned on.
    """
    return _served(release, tuple(runtime_config.items()), _States.of(gates))


class _States(NamedTuple):
    """The gates that decide what is served: those that are on, and those of them that are off by default."""

    on: frozenset[Gate]
    turned_on: frozenset[Gate]

    @staticmethod
    def of(gates: Gates) -> _States:
        on = frozenset(gate for gate in _SERVING_GATES if gates[gate])
        return _States(on, frozenset(filter(gates.turned_on, on)))


@lru_cache(32)  # servers that are started one after the other mostly serve the same
def _served(release: Release, runtime_config: tuple[tuple[str, bool], ...], gates: _States) -> Release:
    on = _Switches(release, dict(runtime_config), gates)
    groups = []
    for group in release.groups:
        enabled = {
            version: tuple(kind for kind in kinds if on(group.name, version, kind.resource))
            for version, kinds in group.versions.items()
        }
        versions = {version: kinds for version, kinds in enabled.items() if kinds}
        if versions:
            groups.append(_narrowed(Group(group.name, versions), gates))
    return Release(release.version, tuple(groups))


class _Switches:
    """A parsed `--runtime-config`. Calling it reports whether a resource of a group-version is on."""

    def __init__(self, release: Release, config: Mapping[str, bool], gates: _States) -> None:
        self.release = release
        self.gates = gates
        self.matchers = [(MATCHERS[key], config[key]) for key in MATCHERS if key in config]
        self.versions: dict[tuple[str, ...], bool] = {}
        self.resources: dict[tuple[str, ...], bool] = {}
        for key, enabled in config.items():
            if key in MATCHERS:
                continue
            parts = tuple(key.split("/"))
            if (parts[0] == "v1" or parts[:2] == ("api", "v1")) and len(parts) < 4:
                parts = ("", *parts) if parts[0] == "v1" else ("", *parts[1:])
            if len(parts) not in (2, 3):
                raise ValueError(f"runtime-config invalid key {key}")
            if len(parts) == 3 and parts[2] != parts[2].lower():
                raise ValueError(
                    f"invalid key {key}: group/version/resource and resource is always lowercase plural, "
                    f'not "{parts[2]}"'
                )
            (self.versions if len(parts) == 2 else self.resources)[parts] = enabled
        _check_known(release, {parts[:2] for parts in (*self.versions, *self.resources)})

    def __call__(self, group: str, version: str, resource: str) -> bool:
        needed, sufficient = _NEEDED_GATES.get((group, resource)), SUFFICIENT_GATES.get((group, resource))
        if needed is not None and needed not in self.gates.on:
            return False
        on = (
            (group, version, resource) not in self.release.off_by_default
            or group == DYNAMIC_RESOURCE_ALLOCATION_GROUP
            or (sufficient is not None and sufficient in self.gates.turned_on)
        )
        for pattern, enabled in self.matchers:
            if pattern.match(version):
                on = enabled
        on = self.versions.get((group, version), on)
        return self.resources.get((group, version, resource), on)


def _check_known(release: Release, group_versions: Iterable[tuple[str, ...]]) -> None:
    """Raise ValueError for group-versions that a release does not know."""
    unserved = sorted(each for each in group_versions if not release.serves(*each))
    if not unserved:
        return
    known = registered(release.version)  # read only for what is not served
    groups = {group for group, _ in known}
    if unknown := [each for each in unserved if each[0] not in groups]:
        parts = 2 if _NAMES_VERSIONS[release.version] else 1
        raise ValueError(f"unknown api groups {','.join('/'.join(each[:parts]) for each in unknown)}")
    for each in unserved:
        if each not in known:
            raise ValueError(f"group version {'/'.join(each)} that has not been registered")


def _narrowed(group: Group, gates: _States) -> Group:
    """Return the group with kinds that only have the versions in it, and the subresources whose gates are on."""
    served: dict[str, list[str]] = {}
    for version, kinds in group.versions.items():
        for kind in kinds:
            served.setdefault(kind.name, []).append(version)
    once = {
        kind.name: replace(
            kind, versions=tuple(served[kind.name]), subresources=_enabled(kind.subresources, kind, gates)
        )
        for kinds in group.versions.values()
        for kind in kinds
    }
    return Group(group.name, {v: tuple(once[kind.name] for kind in kinds) for v, kinds in group.versions.items()})


def _enabled(subresources: Mapping[str, Subresource], kind: Kind, gates: _States) -> Mapping[str, Subresource]:
    """Return the subresources of a kind whose feature gates are on."""
    needed = {name: _NEEDED_GATES.get((kind.group, f"{kind.resource}/{name}")) for name in subresources}
    return {name: sub for name, sub in subresources.items() if (gate := needed[name]) is None or gate in gates.on}
