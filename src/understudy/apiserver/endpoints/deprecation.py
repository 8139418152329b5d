"""Deprecated API versions, and the warnings that their answers carry. A server tells them nowhere else."""

from __future__ import annotations

from typing import NamedTuple

from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind


class Lifecycle(NamedTuple):
    """The releases that deprecated and removed a kind's version (`APILifecycleDeprecated`, `APILifecycleRemoved`).

    `removed` is None if no release is announced. `replacement` is the kind to use instead, None if there is none.
    """

    deprecated: Version
    removed: Version | None = None
    replacement: GroupVersionKind | None = None


def _deprecated(
    api_version: str, *kinds: str, since: str, removed: str, replaced_by: str = ""
) -> dict[GroupVersionKind, Lifecycle]:
    """Return the lifecycle of kinds of a version. `replaced_by` is the version of the group to use instead."""
    group, _, version = api_version.rpartition("/")
    return {
        GroupVersionKind(group, version, kind): Lifecycle(
            Version.parse(since),
            Version.parse(removed),
            GroupVersionKind(group, replaced_by, kind) if replaced_by else None,
        )
        for kind in kinds
    }


_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
_MUTATING_POLICIES = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
_VALIDATING_POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
_FLOWS = ("FlowSchema", "PriorityLevelConfiguration")

# Newest first.
_LIFECYCLES = {
    **_deprecated("resource.k8s.io/v1beta2", *_CLAIMS, since="1.36", removed="1.39"),
    **_deprecated("resource.k8s.io/v1alpha3", "DeviceTaintRule", since="1.36", removed="1.39"),
    **_deprecated("coordination.k8s.io/v1beta1", "LeaseCandidate", since="1.36", removed="1.39"),
    **_deprecated("resource.k8s.io/v1beta1", *_CLAIMS, since="1.35", removed="1.38"),
    **_deprecated("admissionregistration.k8s.io/v1alpha1", *_MUTATING_POLICIES, since="1.35", removed="1.38"),
    **_deprecated("coordination.k8s.io/v1alpha2", "LeaseCandidate", since="1.35", removed="1.38"),
    **_deprecated("networking.k8s.io/v1beta1", "IPAddress", "ServiceCIDR", since="1.34", removed="1.37"),
    **_deprecated("certificates.k8s.io/v1alpha1", "ClusterTrustBundle", since="1.34", removed="1.37"),
    **_deprecated("storage.k8s.io/v1beta1", "VolumeAttributesClass", since="1.34", removed="1.37", replaced_by="v1"),
    GroupVersionKind("", "v1", "Endpoints"): Lifecycle(
        Version(1, 33), replacement=GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
    ),
    **_deprecated("storagemigration.k8s.io/v1alpha1", "StorageVersionMigration", since="1.33", removed="1.36"),
    **_deprecated("storage.k8s.io/v1alpha1", "VolumeAttributesClass", since="1.32", removed="1.35"),
    **_deprecated("admissionregistration.k8s.io/v1beta1", *_VALIDATING_POLICIES, since="1.31", removed="1.34"),
    **_deprecated("authentication.k8s.io/v1beta1", "SelfSubjectReview", since="1.30", removed="1.33"),
    **_deprecated("authentication.k8s.io/v1alpha1", "SelfSubjectReview", since="1.29", removed="1.32"),
    **_deprecated("flowcontrol.apiserver.k8s.io/v1beta3", *_FLOWS, since="1.29", removed="1.32", replaced_by="v1"),
    GroupVersionKind("", "v1", "ComponentStatus"): Lifecycle(Version(1, 19)),
}


def warning(kind: GroupVersionKind, release: Version) -> str:
    """Return the warning of a kind's version that is deprecated in a release, "" for any other (`WarningMessage`)."""
    lifecycle = _LIFECYCLES.get(kind)
    if lifecycle is None or release < lifecycle.deprecated:
        return ""
    text = f"{kind.api_version} {kind.kind} is deprecated in v{lifecycle.deprecated}+"
    if lifecycle.removed:
        text += f", unavailable in v{lifecycle.removed}+"
    if lifecycle.replacement:
        text += f"; use {lifecycle.replacement.api_version} {lifecycle.replacement.kind}"
    return text
