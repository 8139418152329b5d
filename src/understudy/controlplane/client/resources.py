"""Resources of the API: where their objects are found, and how objects are referred to."""

from __future__ import annotations

from understudy.apiserver.serving.release import Release
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj


class Resource(NamedTuple):
    """A resource in the version in which it is used: Resource("", "v1", "pods", "Pod"). The core group is "".

    protobuf_release  the release whose types its objects have, if they are read and written as protobuf; None for JSON
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    protobuf_release: Version | None = None

    @property
    def api_version(self) -> str:
        """Return `resource.k8s.io/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL's path of an object, of a namespace's objects, or of all without either."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        return "/".join([*parts, *(part for part in (name, subresource) if part)])

    def typed(self, obj: Obj) -> Obj:
        """Return an object with its `apiVersion` and `kind`, which items of a list do not have."""
        return {**obj, "apiVersion": self.api_version, "kind": self.kind}


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")
EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event")

# The version of resource.k8s.io that the components of a release use.
RESOURCE_API = ByRelease({V1_31: "v1alpha3", V1_32: "v1beta1", V1_34: "v1"})


def preferred_version(version: Version, group: str, kind: str) -> str:
    """Return the version of a kind that a release prefers, "v1alpha1" for a kind that it does not have."""
    known = Release.of(version).kind(group, kind)
    return known.versions[0] if known else "v1alpha1"


def resource_claims(version: Version) -> Resource:
    """Return ResourceClaims in the version that components of a release use."""
    return _with_parameters(version, "resourceclaims", "ResourceClaim")


def resource_claim_templates(version: Version) -> Resource:
    """Return ResourceClaimTemplates in the version that components of a release use."""
    return _with_parameters(version, "resourceclaimtemplates", "ResourceClaimTemplate")


def resource_slices(version: Version) -> Resource:
    """Return ResourceSlices in the version that components of a release use."""
    return Resource("resource.k8s.io", RESOURCE_API[version], "resourceslices", "ResourceSlice", namespaced=False)


def device_classes(version: Version) -> Resource:
    """Return DeviceClasses in the version that components of a release use."""
    return _with_parameters(version, "deviceclasses", "DeviceClass", namespaced=False)


def _with_parameters(version: Version, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    """Return a resource whose objects have parameters for drivers, the bytes of which only protobuf keeps."""
    return Resource("resource.k8s.io", RESOURCE_API[version], plural, kind, namespaced, protobuf_release=version)


def device_taint_rules(version: Version) -> Resource:
    """Return DeviceTaintRules in the version that components of a release use."""
    preferred = preferred_version(version, "resource.k8s.io", "DeviceTaintRule")
    return Resource("resource.k8s.io", preferred, "devicetaintrules", "DeviceTaintRule", namespaced=False)


def pod_groups(version: Version) -> Resource:
    """Return PodGroups in the version that components of a release use."""
    preferred = preferred_version(version, "scheduling.k8s.io", "PodGroup")
    return Resource("scheduling.k8s.io", preferred, "podgroups", "PodGroup")


def object_reference(resource: Resource, obj: Obj) -> Obj:
    """Return the reference of an object that an event has. Upstream: `reference.GetReference`."""
    metadata = obj["metadata"]
    reference = {
        "kind": resource.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "apiVersion": resource.api_version,
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {field: value for field, value in reference.items() if value}
