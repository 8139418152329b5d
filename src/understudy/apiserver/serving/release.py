"""A release: the group-versions and kinds that it serves, and other facts about it.

    release = Release.of(V1_32)
    pods = release.resource("", "v1", "pods")           # a Kind, or None
    release.kind("resource.k8s.io", "ResourceClaim")
    release.served({"resource.k8s.io/v1alpha3": False}, gates)  # another Release, with what a server serves

Facts are recorded from the real server: `schemas/RELEASE/resources.json` is its discovery, `release.json` has the rest.
The behaviour of kinds comes from `kinds` and is imported when it is first needed.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from importlib import resources
from typing import Any, NamedTuple, TypedDict

from understudy.apiserver.registry.encoding.go_codec import GoCodec
from understudy.kinds.declarations.kind import Behavior, Kind, Subresource
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate, Gates
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.typeinfo.group_versions import registered
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.util.spelling import did_you_mean

# Keys of --runtime-config that stand for many group-versions, in the order in which they are applied
# (k8s.io/apiserver/pkg/server/resourceconfig).
MATCHERS = {
    "api/all": re.compile(""),
    "api/ga": re.compile(r"v\d+$"),
    "api/beta": re.compile(r"v\d+beta\d+$"),
    "api/alpha": re.compile(r"v\d+alpha\d+$"),
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


class UnknownReleaseError(ValueError):
    """A release without schemas."""


class _Facts(TypedDict):
    """The content of `schemas/RELEASE/release.json`; deprecated kinds by "group/version/Kind"."""

    version: Obj
    healthChecks: Mapping[str, Sequence[str]]
    deprecated: Mapping[str, Sequence[str]]


class Lifecycle(NamedTuple):
    """The releases that deprecated and remove a kind's version, as text; "" if no release is to remove it.

    `replacement` is the kind to use instead, None if there is none. Upstream: `APILifecycleDeprecated` and so on.
    """

    deprecated: str
    removed: str
    replacement: GroupVersionKind | None


@dataclass(frozen=True, eq=False)
class Group:
    """An API group as discovery lists it: versions, preferred first, with the kinds of each in discovery's order."""

    name: str
    versions: Mapping[str, tuple[Kind, ...]]

    @property
    def preferred(self) -> str:
        """Return the preferred version."""
        return next(iter(self.versions))


def storage_version_hash(stored: GroupVersionKind) -> str:
    """Return the hash that discovery shows for a stored kind (`discovery.StorageVersionHash`).

    Two resources with equal hashes are stored in the same way.
    """
    return b64encode(sha256("/".join(stored).encode()).digest()[:8]).decode()


@cache
def releases() -> tuple[Version, ...]:
    """Return the releases that have schemas, oldest first."""
    names = (item.name for item in resources.files("understudy.schemas").iterdir())
    return tuple(sorted(Version.parse(name) for name in names if re.match(r"\d+\.\d+$", name)))


DEFAULT = str(releases()[-1])
_NAME = re.compile(r"v?(\d+\.\d+)(?:\.\d+)?", re.ASCII)


class Release:
    """A release with the group-versions and kinds that it serves.

    `groups` are in the order of discovery, the core group ("") first.
    """

    @staticmethod
    @lru_cache
    def of(version: Version) -> Release:
        """Return a release with every group-version switched on."""
        recorded = read_release_file(version, "resources.json")
        return Release(version, tuple(_groups(version, recorded)), frozenset(_off_by_default(recorded)))

    @staticmethod
    def named(name: str) -> Release:
        """Return the release that a user names: "1.32", "v1.32", or one of its patches, "1.32.2". Raises
        UnknownReleaseError."""
        known = {str(version): version for version in releases()}
        named = _NAME.fullmatch(name)
        if not named or named[1] not in known:
            hint = "" if named else did_you_mean(name, known)  # a release that could be has none that is like it
            raise UnknownReleaseError(f"unknown release {name!r}: there are {', '.join(known)}{hint}")
        return Release.of(known[named[1]])

    def __init__(
        self, version: Version, groups: tuple[Group, ...], off_by_default: frozenset[tuple[str, ...]] = frozenset()
    ) -> None:
        self.version = version
        self.groups = groups
        self.off_by_default = off_by_default  # (group, version, resource), as the real server's defaults are
        self._resources = {
            (group.name, version, kind.resource): kind
            for group in groups
            for version, kinds in group.versions.items()
            for kind in kinds
        }
        self._kinds = {(kind.group, kind.name): kind for kind in self._resources.values()}
        self._by_resource = {(kind.group, kind.resource): kind for kind in self._kinds.values()}

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind of a resource of a group-version, None if it is not served."""
        return self._resources.get((group, version, plural))

    def kind(self, group: str, name: str) -> Kind | None:
        """Return a kind by its name, None if it is not served."""
        return self._kinds.get((group, name))

    def of_resource(self, group: str, plural: str) -> Kind | None:
        """Return the kind of a resource in any version, None if it is not served."""
        return self._by_resource.get((group, plural))

    @property
    def kinds(self) -> Iterator[Kind]:
        """Return each kind once, in the order of discovery."""
        return iter(self._kinds.values())

    def group(self, name: str) -> Group | None:
        """Return an API group, None if it is not served."""
        return self._groups.get(name)

    def serves(self, group: str, version: str) -> bool:
        """Report whether a group-version is served."""
        served_group = self._groups.get(group)
        return served_group is not None and version in served_group.versions

    @cached_property
    def _groups(self) -> dict[str, Group]:
        return {group.name: group for group in self.groups}

    @property
    def version_info(self) -> Obj:
        """Return the answer of /version (`version.Info`)."""
        return self._facts["version"]

    @property
    def health_checks(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the health checks of `healthz`, `livez` and `readyz`, in the order of their list."""
        return self._facts["healthChecks"]

    @cached_property
    def deprecated(self) -> Mapping[GroupVersionKind, Lifecycle]:
        """Return the lifecycles of the kinds' versions that are deprecated in this release."""
        return {
            GroupVersionKind(*key.split("/")): Lifecycle(
                since, removed, GroupVersionKind(*replacement.split("/")) if replacement else None
            )
            for key, (since, removed, replacement) in self._facts["deprecated"].items()
        }

    @cached_property
    def _facts(self) -> _Facts:
        """Return what was recorded of the release besides discovery."""
        facts: _Facts = read_release_file(self.version, "release.json")
        return facts

    def served(self, runtime_config: Mapping[str, bool], gates: Gates) -> Release:
        """Return the release with what a server of it serves, given its `--runtime-config` and feature gates.

        Keys are `api/all`, `api/ga`, `api/beta`, `api/alpha`, then `group/version` (`v1` and `api/v1` for the core
        group), then `group/version/resource`. Raises ValueError for groups and versions that the release does not know;
        it knows many that it serves no more. A resource that is off by default is on, too, if the feature gate that it
        needs is turned on.
        """
        on = _Switches(self, runtime_config, gates)
        groups = []
        for group in self.groups:
            enabled = {
                version: tuple(kind for kind in kinds if on(group.name, version, kind.resource))
                for version, kinds in group.versions.items()
            }
            versions = {version: kinds for version, kinds in enabled.items() if kinds}
            if versions:
                groups.append(_narrowed(Group(group.name, versions), gates))
        return Release(self.version, tuple(groups))


class _Switches:
    """A parsed `--runtime-config`. Calling it reports whether a resource of a group-version is on."""

    def __init__(self, release: Release, config: Mapping[str, bool], gates: Gates) -> None:
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
        if needed is not None and not self.gates[needed]:
            return False
        on = (
            (group, version, resource) not in self.release.off_by_default
            or group == DYNAMIC_RESOURCE_ALLOCATION_GROUP
            or (sufficient is not None and self.gates.turned_on(sufficient))
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


def _narrowed(group: Group, gates: Gates) -> Group:
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


def _enabled(subresources: Mapping[str, Subresource], kind: Kind, gates: Gates) -> Mapping[str, Subresource]:
    """Return the subresources of a kind whose feature gates are on."""
    needed = {name: _NEEDED_GATES.get((kind.group, f"{kind.resource}/{name}")) for name in subresources}
    return {name: sub for name, sub in subresources.items() if (gate := needed[name]) is None or gates[gate]}


def _off_by_default(recorded: Iterable[Obj]) -> Iterator[tuple[str, ...]]:
    """Yield (group, version, resource) of what the real server serves only if its flags say so."""
    for group in recorded:
        for version in group["versions"]:
            for resource in version["resources"]:
                if "offByDefault" in resource:
                    yield group["group"], version["version"], resource["resource"]


def _groups(release: Version, recorded: Iterable[Obj]) -> Iterator[Group]:
    """Yield the API groups that were recorded of a release."""
    for group in recorded:
        facts: dict[str, dict[str, Any]] = {}  # {kind: {version: fact}}
        for version in group["versions"]:
            for resource in version["resources"]:
                facts.setdefault(resource["responseKind"]["kind"], {})[version["version"]] = resource
        kinds = {name: _kind(release, group["group"], name, versions) for name, versions in facts.items()}
        yield Group(
            group["group"],
            {
                version["version"]: tuple(kinds[resource["responseKind"]["kind"]] for resource in version["resources"])
                for version in group["versions"]
            },
        )


def _kind(release: Version, group: str, name: str, facts: dict[str, Any]) -> Kind:
    """Return a kind with the facts that were recorded of its versions, preferred first."""
    preferred, first = next(iter(facts.items()))
    return Kind(
        release=release,
        group=group,
        name=name,
        resource=first["resource"],
        singular=first["singularResource"],
        namespaced=first["scope"] == "Namespaced",
        verbs=tuple(first["verbs"]),
        versions=tuple(facts),
        stored=GroupVersionKind(*first.get("stored", (group, preferred, name))),
        short_names=tuple(first.get("shortNames", ())),
        categories=tuple(first.get("categories", ())),
        subresources={s["subresource"]: _subresource(s, group, preferred) for s in first.get("subresources", ())},
        columns={version: fact["columns"] for version, fact in facts.items() if "columns" in fact},
        find_behavior=_behavior_of(release, group, name),
        new_codec=GoCodec.of,
    )


def _subresource(fact: Obj, group: str, version: str) -> Subresource:
    """Return a subresource; it is foreign if it has a group-version of its own."""
    kind = fact["responseKind"]
    foreign = bool(kind["version"])
    own_group, own_version = (kind["group"], kind["version"]) if foreign else (group, version)
    gvk = GroupVersionKind(own_group, own_version, kind["kind"])
    return Subresource(fact["subresource"], gvk, tuple(fact["verbs"]), foreign)


def _behavior_of(release: Version, group: str, name: str) -> Callable[[], Behavior]:
    """Return a function that finds the behavior of a kind when it is first needed."""

    def find() -> Behavior:
        from understudy.kinds.behaviors import behaviors  # here, since /version needs none

        return behaviors(release).get((group, name), Behavior())

    return find
