"""The match constraints of policies and bindings (`MatchResources`).

Source: k8s.io/apiserver/pkg/admission/plugin/policy/matching.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.chain import Attributes, Point
from understudy.admission.matching import rules, selectors
from understudy.admission.objects import ObjectInterfaces
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, NamedTuple, Obj


class Match(NamedTuple):
    """The resource and kind that give a request its version: its own, or an equivalent one."""

    resource: GroupVersionResource
    kind: GroupVersionKind


def match_resources(constraints: Obj, attributes: Attributes, ctx: Context, objects: ObjectInterfaces) -> Match | None:
    """Return the match of constraints and a request, None if they do not match (`Matcher.Matches`).

    Raises StatusError if all but the namespace of the request matches, and that does not exist.
    """
    missing: StatusError | None = None
    try:
        if not selectors.namespace_matches(constraints["namespaceSelector"], attributes, ctx):
            return None
    except StatusError as error:
        missing = error
    if not selectors.object_matches(constraints["objectSelector"], attributes):
        return None
    equivalent = constraints.get("matchPolicy") == "Equivalent"
    if _match_rules(constraints.get("excludeResourceRules") or (), equivalent, attributes, objects):
        return None
    resource_rules = constraints.get("resourceRules") or ()
    match: Match | None = Match(attributes.resource, attributes.kind)
    if resource_rules:
        match = _match_rules(resource_rules, equivalent, attributes, objects)
    if match is not None and missing is not None:
        raise missing
    return match


def may_match(constraints: Obj, point: Point) -> bool:
    """Report whether constraints could match requests of a kind."""
    resource_rules = constraints.get("resourceRules") or ()
    return not resource_rules or any(rules.may_match(rule, point) for rule in resource_rules)


def _match_rules(
    named_rules: Sequence[Obj], equivalent: bool, attributes: Attributes, objects: ObjectInterfaces
) -> Match | None:
    """Return the match of the first rule that fits a request: each is tried on the request itself first."""
    for rule in named_rules:
        if rules.matches(rule, attributes, attributes.resource) and _is_named(rule, attributes.name):
            return Match(attributes.resource, attributes.kind)
    if not equivalent:
        return None
    for rule in named_rules:
        for resource, kind, _ in objects.equivalent_resources(attributes.resource, attributes.point.subresource):
            if resource != attributes.resource and rules.matches(rule, attributes, resource):
                if _is_named(rule, attributes.name):
                    return Match(resource, kind)
    return None


def _is_named(rule: Obj, name: str) -> bool:
    """Report whether a rule is about objects of a name; rules without names are about all."""
    names = rule.get("resourceNames")
    return not names or name in names
