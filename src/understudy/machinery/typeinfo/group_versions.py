"""The group-versions that a server knows (upstream: those registered in its schemes), served or not.

Those that are not served any more are known for long: `--runtime-config` accepts them, and OpenAPI documents say that
kinds such as `DeleteOptions` belong to them.
"""

from __future__ import annotations

from functools import cache

from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas

_DELETE_OPTIONS = "k8s.io/apimachinery/pkg/apis/meta/v1.DeleteOptions"  # a kind of every group-version
# Known and not served; before 1.36 the recorded OpenAPI documents name them.
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


@cache
def registered(release: Version) -> frozenset[tuple[str, str]]:
    """Return (group, version) of everything that a release knows."""
    schemas = Schemas.of(release)
    named = schemas.openapi_of(_DELETE_OPTIONS)["x-kubernetes-group-version-kind"]
    known = {(gvk["group"], gvk["version"]) for gvk in named} | {*_UNSERVED[release]}
    known |= {*schemas.group_versions("DeleteOptions")}
    return frozenset((group, version) for group, version in known if version != INTERNAL)
