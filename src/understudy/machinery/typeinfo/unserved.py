"""Kinds in API versions that no release serves any more, but whose types the real server still has.

A body may name one of them: it is decoded as such, and refused because its version is not that of the path, or because
it does not convert to the kind that is expected.
"""

from __future__ import annotations

from functools import cache

from understudy.machinery.releases.version import V1_33, V1_34, V1_35
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import GroupVersionKind

_FLOWS = "FlowSchema PriorityLevelConfiguration"
_ROLES = "Role RoleBinding ClusterRole ClusterRoleBinding"
_REVIEWS = "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview"
# By API version; lists of these kinds are known as well. A release that serves one of them finds it before.
_KINDS = {
    "apiextensions.k8s.io/v1beta1": "CustomResourceDefinition",
    "apiregistration.k8s.io/v1beta1": "APIService",
    "apps/v1beta1": "Deployment StatefulSet ControllerRevision Scale",
    "apps/v1beta2": "Deployment StatefulSet DaemonSet ReplicaSet ControllerRevision Scale",
    "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
    "authentication.k8s.io/v1beta1": "SelfSubjectReview TokenReview",
    "authorization.k8s.io/v1beta1": _REVIEWS,
    "autoscaling/v2beta1": "HorizontalPodAutoscaler",
    "autoscaling/v2beta2": "HorizontalPodAutoscaler",
    "batch/v1beta1": "CronJob",
    "certificates.k8s.io/v1alpha1": "ClusterTrustBundle",
    "certificates.k8s.io/v1beta1": "CertificateSigningRequest",
    "coordination.k8s.io/v1beta1": "Lease",
    "discovery.k8s.io/v1beta1": "EndpointSlice",
    "events.k8s.io/v1beta1": "Event",
    "extensions/v1beta1": "Deployment DaemonSet ReplicaSet Scale Ingress NetworkPolicy",
    "flowcontrol.apiserver.k8s.io/v1beta1": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta2": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta3": _FLOWS,
    "networking.k8s.io/v1alpha1": "IPAddress ServiceCIDR",
    "networking.k8s.io/v1beta1": "Ingress IngressClass IPAddress ServiceCIDR",
    "node.k8s.io/v1alpha1": "RuntimeClass",
    "node.k8s.io/v1beta1": "RuntimeClass",
    "policy/v1beta1": "PodDisruptionBudget Eviction",
    "rbac.authorization.k8s.io/v1alpha1": _ROLES,
    "rbac.authorization.k8s.io/v1beta1": _ROLES,
    "scheduling.k8s.io/v1alpha1": "PriorityClass",
    "scheduling.k8s.io/v1beta1": "PriorityClass",
    "storage.k8s.io/v1alpha1": "VolumeAttachment CSIStorageCapacity VolumeAttributesClass",
    "storage.k8s.io/v1beta1": (
        "StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity VolumeAttributesClass"
    ),
}
# The last releases that have types which are gone since.
_LAST = {
    "autoscaling/v2beta1": V1_35,
    "autoscaling/v2beta2": V1_35,
    "networking.k8s.io/v1alpha1": V1_33,
    "scheduling.k8s.io/v1alpha1": V1_34,
}
_MOVED = {"extensions": ("apps", "networking.k8s.io", "autoscaling"), "apps": ("apps", "autoscaling")}  # groups


def registered_versions(schemas: Schemas, group: str, kind: str) -> list[str]:
    """Return the versions of a kind for which the real server has types, served or not, in no order."""
    served = schemas.versions(group, kind)
    named = (api_version.rpartition("/") for api_version in _KINDS)
    known = [version for of, _, version in named if of == group and _is_unserved(schemas, group, version, kind)]
    return [*served, *(version for version in known if version not in served)]


def _is_unserved(schemas: Schemas, group: str, version: str, kind: str) -> bool:
    """Report whether the real server has a type, which it does not serve."""
    api_version = f"{group}/{version}"
    last = _LAST.get(api_version)
    names = _KINDS.get(api_version, "").split()
    return kind.removesuffix("List") in names and (last is None or schemas.version <= last)


def served_as(schemas: Schemas, gvk: GroupVersionKind) -> GroupVersionKind:
    """Return the kind that has taken the place of one in a version that is not served; any other kind itself."""
    if schemas.has_kind(*gvk) or not _is_unserved(schemas, *gvk):
        return gvk
    groups = _MOVED.get(gvk.group, (gvk.group,))
    places = (
        GroupVersionKind(group, version, gvk.kind) for group in groups for version in ("v1", "v1beta1", "v1alpha1")
    )
    return next((place for place in places if schemas.has_kind(*place)), gvk)


@cache
def unserved(schemas: Schemas, gvk: GroupVersionKind, served: GroupVersionKind) -> Struct:
    """Return the type of a kind in a version that is not served: that of another version, by its own name."""
    struct = Struct(schemas, schemas.kind(*served).name)
    struct.go = f"{gvk.version}.{gvk.kind}"
    return struct
