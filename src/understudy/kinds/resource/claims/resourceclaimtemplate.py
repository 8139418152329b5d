"""Validation of ResourceClaimTemplate: the metadata and spec of claims to be."""

from __future__ import annotations

from understudy.kinds.common import objectmeta
from understudy.kinds.resource.claims import resourceclaim
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path

SPEC = "k8s.io/kubernetes/pkg/apis/resource.ResourceClaimTemplateSpec"


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check the metadata and spec of the claims to be; `stored`: they are unchanged since they were stored."""
    return [
        *objectmeta.validate_template(spec.get("metadata", {}), path.child("metadata")),
        *resourceclaim.validate_spec(spec.get("spec") or {}, path.child("spec"), rules, stored),
    ]


def shown(spec: Obj, rules: ReleaseRules) -> Typed:
    """Return the spec of a template as errors show it."""
    return Typed({**spec, "spec": rules.shown_claim(spec["spec"])}, SPEC)
