"""The group-versions that kinds such as `DeleteOptions` belong to in OpenAPI documents: those of a whole Go scheme."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas
from understudy.machinery.types import Obj

# Groups that the server knows, and the scheme of client-go does not, from which upstream takes the types of metadata.
_UNKNOWN_TO_CLIENTS = frozenset(
    ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
)
# Group-versions that the server knows and does not serve (any more); before 1.36 the recorded documents name them.
_UNSERVED = ByRelease(
    {
        V1_36: (
            *(("admission.k8s.io", "v1"), ("admission.k8s.io", "v1beta1"), ("apiextensions.k8s.io", "v1beta1")),
            *(("apiregistration.k8s.io", "v1beta1"), ("imagepolicy.k8s.io", "v1alpha1")),
            *(("apps", "v1beta1"), ("apps", "v1beta2"), ("authentication.k8s.io", "v1alpha1")),
            *(("authentication.k8s.io", "v1beta1"), ("authorization.k8s.io", "v1beta1"), ("batch", "v1beta1")),
            *(("discovery.k8s.io", "v1beta1"), ("events.k8s.io", "v1beta1"), ("extensions", "v1beta1")),
            *(("flowcontrol.apiserver.k8s.io", version) for version in ("v1beta1", "v1beta2", "v1beta3")),
            *(("node.k8s.io", "v1alpha1"), ("node.k8s.io", "v1beta1"), ("policy", "v1beta1")),
            *(("rbac.authorization.k8s.io", "v1alpha1"), ("rbac.authorization.k8s.io", "v1beta1")),
            *(("scheduling.k8s.io", "v1beta1"), ("storage.k8s.io", "v1alpha1")),
        ),
        V1_31: (),
    }
)


def known_to_server(kind: str, named: Iterable[Obj], release: Version) -> list[Obj]:
    """Return a kind in every group-version that the server knows, as `x-kubernetes-group-version-kind` has them.

    named  those that the type has in the document of one group-version: from 1.36 on only its own
    """
    known = {(gvk["group"], gvk["version"]) for gvk in named}
    known |= {*Schemas.of(release).group_versions(kind), *_UNSERVED[release]}
    return [
        {"group": group, "kind": kind, "version": version} for group, version in sorted(known) if version != INTERNAL
    ]


def known_to_clients(kind: str, named: Iterable[Obj], release: Version) -> list[Obj]:
    """Return a kind in every group-version of the scheme of client-go."""
    return [gvk for gvk in known_to_server(kind, named, release) if gvk["group"] not in _UNKNOWN_TO_CLIENTS]
