"""A release: the group-versions and kinds that it serves, and other facts about it.

    release = Release.of(V1_32)
    pods = release.resource("", "v1", "pods")           # a Kind, or None
    release.kind("resource.k8s.io", "ResourceClaim")

Facts are recorded from the real server: `schemas/RELEASE/resources.json` is its discovery, `release.json` has the rest.
The behavior of kinds comes from `kinds` and is imported when it is first needed. What a server serves of a release is
decided in `runtime_config`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from typing import Any, TypedDict

from understudy.apiserver.encoding.go_codec import GoCodec
from understudy.kinds.declarations.kind import Behavior, Kind, Subresource
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, dataclass
from understudy.machinery.util.regex import regex
from understudy.machinery.util.spelling import did_you_mean
from understudy.schemas import SCHEMAS


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
def _recorded() -> tuple[Version, ...]:
    """Return the releases and previews that have schemas, oldest first."""
    names = (item.name for item in SCHEMAS.iterdir())
    return tuple(sorted(Version.parse(name) for name in names if re.match(r"\d+\.\d+(-[a-z]+)?$", name)))


def releases() -> tuple[Version, ...]:
    """Return the releases that have schemas, oldest first, without previews."""
    return tuple(version for version in _recorded() if not version.is_preview)


def previews() -> tuple[Version, ...]:
    """Return the previews that have schemas: of releases that are not there yet."""
    return tuple(version for version in _recorded() if version.is_preview)


def release_names() -> str:
    """Return all that can be emulated as one text: "1.36, 1.37, and 1.38-alpha as a preview"."""
    of_previews = "".join(f", and {version} as a preview" for version in previews())
    return ", ".join(map(str, releases())) + of_previews


DEFAULT = str(releases()[-1])
_NAME = regex(r"v?(\d+\.\d+)(?:\.\d+)?(?:-(alpha|beta|rc)(?:\.\d+)?)?", re.ASCII)


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
        """Return the release that a user names: "1.32", "v1.32", or one of its patches, "1.32.2"; "1.38-alpha" or
        "v1.38.0-alpha.0" for a preview. Raises UnknownReleaseError."""
        known = {str(version): version for version in _recorded()}
        named = _NAME.fullmatch(name)
        number, stage = named.groups() if named else ("", None)
        version = known.get(f"{number}-{stage}") if stage else None
        version = version or known.get(number)  # the last previews are as the release, once that is there
        if version is None:
            hint = "" if named else did_you_mean(name, known)  # a release that could be has none that is like it
            raise UnknownReleaseError(f"unknown release {name!r}: there are {release_names()}{hint}")
        return Release.of(version)

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
        return self._resources.get((group, version, plural))

    def kind(self, group: str, name: str) -> Kind | None:
        return self._kinds.get((group, name))

    def of_resource(self, group: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, plural))

    @property
    def kinds(self) -> Iterator[Kind]:
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

    @property
    def _facts(self) -> _Facts:
        """Return the recorded facts of the release besides discovery."""
        return _facts_of(self.version)


@cache
def _facts_of(version: Version) -> _Facts:
    facts: _Facts = read_release_file(version, "release.json")
    return facts


def _off_by_default(recorded: Iterable[Obj]) -> Iterator[tuple[str, ...]]:
    """Yield (group, version, resource) of what the real server serves only if its flags say so."""
    for group in recorded:
        for version in group["versions"]:
            for resource in version["resources"]:
                if "offByDefault" in resource:
                    yield group["group"], version["version"], resource["resource"]


def _groups(version: Version, recorded: Iterable[Obj]) -> Iterator[Group]:
    """Yield the API groups that were recorded of a release."""
    for group in recorded:
        facts: dict[str, dict[str, Any]] = {}  # {kind: {version: fact}}
        for served in group["versions"]:
            for resource in served["resources"]:
                facts.setdefault(resource["responseKind"]["kind"], {})[served["version"]] = resource
        kinds = {name: _kind(version, group["group"], name, versions) for name, versions in facts.items()}
        yield Group(
            group["group"],
            {
                served["version"]: tuple(kinds[resource["responseKind"]["kind"]] for resource in served["resources"])
                for served in group["versions"]
            },
        )


def _kind(version: Version, group: str, name: str, facts: dict[str, Any]) -> Kind:
    """Return a kind with the facts that were recorded of its versions, preferred first."""
    preferred, first = next(iter(facts.items()))
    return Kind(
        release=version,
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
        columns={served: fact["columns"] for served, fact in facts.items() if "columns" in fact},
        find_behavior=_behavior_of(version, group, name),
        new_codec=GoCodec.of,
    )


def _subresource(fact: Obj, group: str, version: str) -> Subresource:
    """Return a subresource; it is foreign if it has its own group-version."""
    kind = fact["responseKind"]
    foreign = bool(kind["version"])
    own_group, own_version = (kind["group"], kind["version"]) if foreign else (group, version)
    gvk = GroupVersionKind(own_group, own_version, kind["kind"])
    return Subresource(fact["subresource"], gvk, tuple(fact["verbs"]), foreign)


def _behavior_of(version: Version, group: str, name: str) -> Callable[[], Behavior]:
    """Return a function that finds the behavior of a kind when it is first needed."""

    def find() -> Behavior:
        from understudy.kinds.behaviors import behavior_of  # here, since /version needs none

        return behavior_of(version, group, name)

    return find
