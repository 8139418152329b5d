"""ResourceClaimTemplate: the metadata and spec of claims to be."""

from __future__ import annotations

from understudy.admission import meta
from understudy.admission.field import Errors, Path
from understudy.admission.resource import resourceclaim
from understudy.admission.resource.limits import Limits
from understudy.apiserver.types import Obj

SPEC = "k8s.io/kubernetes/pkg/apis/resource.ResourceClaimTemplateSpec"


def validate_spec(spec: Obj, path: Path, limits: Limits) -> Errors:
    return [
        *meta.validate_template(spec.get("metadata") or {}, path.child("metadata"), limits.release),
        *resourceclaim.validate_spec(spec.get("spec") or {}, path.child("spec"), limits),
    ]
