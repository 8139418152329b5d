"""The families of /metrics about what a server is and holds: its version, feature gates, stored objects, and the
deprecated APIs that clients have asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.pages.exposition import GAUGE, Family, Sample
from understudy.machinery import errors
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_36, ByRelease, Version

Requested = tuple[str, str, str, str]  # group, version, resource, subresource

_ABOUT_OBJECTS = (
    "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will "
    "be -1."
)
_ABOUT_STORAGE_OBJECTS = ByRelease(
    {
        V1_34: f"[STABLE] [DEPRECATED, consider using apiserver_resource_objects instead] {_ABOUT_OBJECTS}",
        V1_31: f"[STABLE] {_ABOUT_OBJECTS}",
    }
)
_ABOUT_SIZE = "[STABLE] Size of the storage database file physically allocated in bytes."
_BUILD_STABILITY = ByRelease({V1_36: "BETA", V1_31: "ALPHA"})
_ABOUT_BUILD = (
    "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, "
    "Go version, and compiler from which Kubernetes was built, and platform on which it is running."
)
_BUILD_LABELS = {
    "build_date": "buildDate",
    "compiler": "compiler",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "git_version": "gitVersion",
    "go_version": "goVersion",
    "major": "major",
    "minor": "minor",
    "platform": "platform",
}
_ABOUT_COMPATIBILITY = (
    "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the "
    "component, usually kube, but is relevant for aggregated-apiservers."
)
_ABOUT_GATES = "[BETA] This metric records the data about the stage and enablement of a k8s feature."
_ABOUT_DEPRECATED = (
    "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, "
    "subresource, and removed_release."
)


def families(
    state: ServerState,
    objects: Mapping[tuple[str, str], int],
    size: int | None,
    requested: Iterable[Requested],
    *,
    hidden: bool = False,
) -> Iterator[Family]:
    """Yield the families of a server; that of deprecated APIs only if one was asked for.

    objects    {(group, resource): how many are stored}
    size       bytes of the file in which they are, None if there is none
    requested  what clients have asked for
    hidden     whether families are among them that are hidden, since they are deprecated
    """
    release = state.release.version
    if hidden or release < V1_35:
        names = {errors.group_resource_text(*named): count for named, count in objects.items()}
        stored = [Sample({"resource": name}, count) for name, count in sorted(names.items())]
        about = _ABOUT_STORAGE_OBJECTS[release]
        if release >= V1_35:
            about = about.replace("[STABLE] ", "[STABLE] (Deprecated since 1.34.0) ")
        yield Family("apiserver_storage_objects", GAUGE, about, stored)
    if release >= V1_34:
        counted = [Sample({"group": group, "resource": name}, n) for (group, name), n in sorted(objects.items())]
        yield Family("apiserver_resource_objects", GAUGE, f"[ALPHA] {_ABOUT_OBJECTS}", counted)
    if size is not None:
        yield Family(
            "apiserver_storage_size_bytes", GAUGE, _ABOUT_SIZE, [Sample({"storage_cluster_id": "etcd-0"}, size)]
        )
    if deprecated := list(_deprecated(state, requested)):
        yield Family("apiserver_requested_deprecated_apis", GAUGE, _ABOUT_DEPRECATED, deprecated)
    yield _build(state.release.version_info, release)
    gates = sorted(state.gates.described().items())
    enabled = [Sample({"name": name, "stage": stage}, int(on)) for name, (stage, on) in gates]
    yield Family("kubernetes_feature_enabled", GAUGE, _ABOUT_GATES, enabled)
    if release >= V1_34:
        yield _compatibility(state.release.version_info)


def _build(version: Mapping[str, str], release: Version) -> Family:
    """Return the family of the version that is answered for. `version`: what /version answers."""
    labels = {label: version[name] for label, name in _BUILD_LABELS.items()}
    about = f"[{_BUILD_STABILITY[release]}] {_ABOUT_BUILD}"
    return Family("kubernetes_build_info", GAUGE, about, [Sample(labels, 1)])


def _compatibility(version: Mapping[str, str]) -> Family:
    """Return the family of the releases that the server is, emulates, and is compatible with."""
    major, minor = version["major"], int(version["minor"])
    emulation, oldest = f"{major}.{minor}", f"{major}.{minor - 1}"
    named = {"binary": version["gitVersion"].removeprefix("v"), "component": "kube", "emulation": emulation}
    return Family("version_info", GAUGE, _ABOUT_COMPATIBILITY, [Sample({**named, "min_compat": oldest}, 1)])


def _deprecated(state: ServerState, requested: Iterable[Requested]) -> Iterator[Sample]:
    """Yield a sample for each deprecated API that was asked for, with the release that has it no longer."""
    for group, version, resource, subresource in sorted(set(requested)):
        kind = state.serving.resource(group, version, resource)
        lifecycle = None if kind is None else state.release.deprecated.get(kind.gvk(version))
        if lifecycle is not None:
            named = {"group": group, "version": version, "resource": resource, "subresource": subresource}
            yield Sample({**named, "removed_release": lifecycle.removed}, 1)
