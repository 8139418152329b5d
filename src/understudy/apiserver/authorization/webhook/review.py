"""SubjectAccessReviews that ask whether a user may do something."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.selectors.labels import OPERATORS_OF_OBJECTS, Requirement
from understudy.machinery.types import GroupVersionKind, Obj

KINDS: Mapping[str, GroupVersionKind] = {
    version: GroupVersionKind("authorization.k8s.io", version, "SubjectAccessReview") for version in ("v1", "v1beta1")
}
_NAMES = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_OPERATORS = {name: operator for operator, name in OPERATORS_OF_OBJECTS.items()}


def spec_of(user: User, attributes: Attributes, *, selectors: bool) -> Obj:
    """Return the spec of a review, in version v1. Upstream: `WebhookAuthorizer.Authorize`.

    selectors  whether it has the selectors of lists
    """
    if attributes.is_resource:
        resource = {name: value for name in _NAMES if (value := getattr(attributes, name))}
        action: Obj = {"resourceAttributes": {**resource, **(_selectors(attributes) if selectors else {})}}
    else:
        path = {"path": attributes.path, "verb": attributes.verb}
        action = {"nonResourceAttributes": {name: value for name, value in path.items() if value}}
    who = {"user": user.name, "groups": user.groups, "extra": user.extra, "uid": user.uid}
    return {**action, **{name: value for name, value in who.items() if value}}


def in_version(spec: Obj, version: str) -> Obj:
    """Return a spec in a version: v1beta1 calls the groups by another name."""
    return spec if version == "v1" else {"group" if name == "groups" else name: spec[name] for name in spec}


def _selectors(attributes: Attributes) -> Obj:
    """Return the selectors of a list, as far as there are terms with operators that a review has."""
    fields = [
        {"key": term.label, "operator": "In" if term.equal else "NotIn", "values": [term.value]}
        for term in attributes.field_selector
    ]
    labels = [
        _requirement(_OPERATORS[term.operator], term)
        for term in attributes.label_selector
        if term.operator in _OPERATORS
    ]
    both = {"fieldSelector": fields, "labelSelector": labels}
    return {name: {"requirements": requirements} for name, requirements in both.items() if requirements}


def _requirement(operator: str, term: Requirement) -> Obj:
    return {"key": term.key, "operator": operator, **({"values": sorted(term.values)} if term.values else {})}
