"""Rules of operations on resources, as policies and webhooks have them.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.chain import Attributes, Point
from understudy.machinery.types import GroupVersionResource, Obj

_NAMESPACES = GroupVersionResource("", "v1", "namespaces")


def matches(rule: Obj, attributes: Attributes, resource: GroupVersionResource) -> bool:
    """Report whether a rule (`RuleWithOperations`) is about a request, as if it were one to `resource`."""
    return (
        _scope_matches(rule.get("scope"), attributes.namespace, resource)
        and _listed(rule["operations"], attributes.point.operation)
        and _listed(rule["apiGroups"], resource.group)
        and _listed(rule["apiVersions"], resource.version)
        and _resource_matches(rule["resources"], resource.resource, attributes.point.subresource)
    )


def may_match(rule: Obj, point: Point) -> bool:
    """Report whether a rule could be about requests of a kind, in whichever version of whichever group they come."""
    return _listed(rule["operations"], point.operation) and any(
        part in ("*", point.resource) for part in (text.partition("/")[0] for text in rule["resources"])
    )


def _scope_matches(scope: str | None, namespace: str, resource: GroupVersionResource) -> bool:
    """Report whether a rule's scope includes a request. A namespace is outside of namespaces, even its own."""
    if scope in (None, "*"):
        return True
    in_namespace = resource != _NAMESPACES and namespace != ""
    return in_namespace if scope == "Namespaced" else not in_namespace


def _listed(items: Sequence[str], requested: str) -> bool:
    return "*" in items or requested in items


def _resource_matches(texts: Sequence[str], resource: str, subresource: str) -> bool:
    """Report whether one of `pods`, `pods/status`, `pods/*`, `*/scale` or `*` names a resource or subresource."""
    for text in texts:
        name, _, part = text.partition("/")
        if name in ("*", resource) and part in ("*", subresource):
            return True
    return False
