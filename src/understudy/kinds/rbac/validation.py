"""Validation of roles and of the bindings that grant them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from understudy.kinds.common import label_selectors
from understudy.kinds.common.compose import Check
from understudy.kinds.common.formats import invalid_texts
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required
from understudy.machinery.validation.names import path_segment_name, subdomain_name

GROUP = "rbac.authorization.k8s.io"

_RESOURCE_FIELDS = {
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
}


def role(obj: Obj, ctx: Context) -> Errors:
    """Check a Role (upstream: `ValidateRole`)."""
    return _rules(obj, ctx, namespaced=True)


def cluster_role(obj: Obj, ctx: Context) -> Errors:
    """Check a ClusterRole (upstream: `ValidateClusterRole`)."""
    errors, rule = _rules(obj, ctx, namespaced=False), obj.get("aggregationRule")
    if rule is None:
        return errors
    path, chosen = Path("aggregationRule", "clusterRoleSelectors"), rule.get("clusterRoleSelectors") or []
    if not chosen:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, text))
    for i, selector in enumerate(chosen):
        wrong = label_selectors.validate(selector, path.index(i))
        errors += wrong
        if wrong:
            errors.append(invalid(path.index(i), None, "invalid label selector."))
    return errors


def _rules(obj: Obj, ctx: Context, *, namespaced: bool) -> Errors:
    rules = enumerate(obj.get("rules") or ())
    return [error for i, rule in rules for error in _rule(rule, namespaced, Path("rules").index(i))]


def _rule(rule: Obj, namespaced: bool, path: Path) -> Errors:
    errors = [] if rule.get("verbs") else [required(path.child("verbs"), "verbs must contain at least one value")]
    urls, where = rule.get("nonResourceURLs"), path.child("nonResourceURLs")
    if not urls:
        needed = _RESOURCE_FIELDS.items()
        return errors + [required(path.child(name), text) for name, text in needed if not rule.get(name)]
    bad_value = Typed(urls, "[]string")
    if namespaced:
        errors.append(invalid(where, bad_value, "namespaced rules cannot apply to non-resource URLs"))
    if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
        errors.append(invalid(where, bad_value, "rules cannot apply to both regular resources and non-resource URLs"))
    return errors


def binding(kinds: Sequence[str]) -> Check:
    """Make the rule for bindings to roles of some kinds."""

    def validate(obj: Obj, ctx: Context) -> Errors:
        ref, path = obj.get("roleRef") or {}, Path("roleRef")
        errors: Errors = []
        for name, allowed in (("apiGroup", [GROUP]), ("kind", kinds)):
            if ref.get(name, "") not in allowed:
                errors.append(not_supported(path.child(name), ref.get(name, ""), allowed))
        if not ref.get("name"):
            errors.append(required(path.child("name")))
        else:
            errors += invalid_texts(path_segment_name(ref["name"], False), ref["name"], path.child("name"))
        for i, subject in enumerate(obj.get("subjects") or ()):
            errors += _subject(subject, "Role" in kinds, Path("subjects").index(i))
        return errors

    return validate


def _subject(subject: Obj, namespaced: bool, path: Path) -> Errors:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    errors = [] if name else [required(path.child("name"))]
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                errors += invalid_texts(subdomain_name(name, False), name, path.child("name"))
            if group:
                errors.append(not_supported(path.child("apiGroup"), group, [""]))
            if not namespaced and not subject.get("namespace"):
                errors.append(required(path.child("namespace")))
        case "User" | "Group":
            if group != GROUP:
                errors.append(not_supported(path.child("apiGroup"), group, [GROUP]))
        case kind:
            errors.append(not_supported(path.child("kind"), kind, ["ServiceAccount", "User", "Group"]))
    return errors


def same_role(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a binding keeps its role."""
    if obj.get("roleRef") == old.get("roleRef"):
        return []
    bad_value = Typed(obj.get("roleRef") or {}, "k8s.io/kubernetes/pkg/apis/rbac.RoleRef")
    older, newer = (invalid(Path("roleRef"), bad_value, text) for text in ("cannot change roleRef", IMMUTABLE))
    return [replace(older, newer=(V1_37, newer))]


BINDING: Callable[[Obj, Context], Errors] = binding(("Role", "ClusterRole"))
CLUSTER_BINDING: Callable[[Obj, Context], Errors] = binding(("ClusterRole",))
