"""The rules of roles: what one allows, and whether rules cover others.

Source: k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go, k8s.io/component-helpers/auth/rbac/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj

ALL = "*"


class Rule:
    """A rule of a role, with its lists as sets. Upstream: `PolicyRule`."""

    __slots__ = ("_groups", "_names", "_resources", "_urls", "_verbs", "value")

    def __init__(self, value: Obj) -> None:
        self.value = value
        self._verbs = frozenset(value.get("verbs") or ())
        self._groups = frozenset(value.get("apiGroups") or ())
        self._resources = frozenset(value.get("resources") or ())
        self._names = frozenset(value.get("resourceNames") or ())
        self._urls = tuple(value.get("nonResourceURLs") or ())

    def allows(self, attributes: Attributes) -> bool:
        """Report whether the rule allows an action. Upstream: `RuleAllows`."""
        if not (attributes.verb in self._verbs or ALL in self._verbs):
            return False
        if not attributes.is_resource:
            return any(url_covers(url, attributes.path) for url in self._urls)
        return (
            (attributes.group in self._groups or ALL in self._groups)
            and self._has_resource(attributes.resource, attributes.subresource)
            and (not self._names or attributes.name in self._names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self._resources
        if ALL in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"{ALL}/{subresource}" in resources

    def covers(self, single: Obj) -> bool:
        """Report whether the rule allows all that a rule with one verb of one resource or URL allows (`ruleCovers`)."""
        if "nonResourceURLs" in single:
            url = single["nonResourceURLs"][0]
            return self._has(self._verbs, single["verbs"][0]) and any(url_covers(own, url) for own in self._urls)
        names = single.get("resourceNames")
        resource = single["resources"][0]
        _, slash, subresource = resource.partition("/")
        return (
            self._has(self._verbs, single["verbs"][0])
            and self._has(self._groups, single["apiGroups"][0])
            and (self._has(self._resources, resource) or bool(slash and f"{ALL}/{subresource}" in self._resources))
            and (not self._names or (names is not None and names[0] in self._names))
        )

    @staticmethod
    def _has(values: frozenset[str], value: str) -> bool:
        return value in values or ALL in values


def url_covers(url: str, path: str) -> bool:
    """Report whether a URL of a rule, which may end in a star, is or covers a path."""
    return url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def uncovered(owned: Sequence[Rule], rules: Iterable[Obj]) -> list[Obj]:
    """Return the parts of rules that no owned rule covers, each with one verb of one resource or URL.

    Upstream: `Covers`.
    """
    singles = (single for rule in rules for single in _broken_down(rule))
    return [single for single in singles if not any(rule.covers(single) for rule in owned)]


def _broken_down(rule: Obj) -> Iterator[Obj]:
    """Yield the rules with one verb of one resource, name or URL that a rule stands for. Upstream: `BreakdownRule`."""
    verbs = rule.get("verbs") or ()
    for group, resource, verb in product(rule.get("apiGroups") or (), rule.get("resources") or (), verbs):
        single = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
        names = rule.get("resourceNames")
        yield from ({**single, "resourceNames": [name]} for name in names) if names else (single,)
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield {"verbs": [verb], "nonResourceURLs": [url]}


def compact(singles: Iterable[Obj]) -> list[Obj]:
    """Return broken down rules with the verbs of the same resource and name together. Upstream: `CompactRules`."""
    joined: dict[tuple[str, ...], Obj] = {}
    others = []
    for single in singles:
        if "nonResourceURLs" in single:
            others.append(single)
            continue
        key = (single["apiGroups"][0], single["resources"][0], *single.get("resourceNames", ()))
        known = joined.setdefault(key, {**single, "verbs": []})
        known["verbs"] += single["verbs"]
    return [*others, *joined.values()]


_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def compact_string(rule: Obj) -> str:
    """Return a rule as the refusals of escalations show it. Upstream: `CompactString`."""
    return "{" + ", ".join(f"{name}:{quoted(rule[field])}" for name, field in _SHOWN if rule.get(field)) + "}"


def quoted(texts: Iterable[str]) -> str:
    """Return texts as Go's verb `%q` prints a list of them."""
    return f"[{' '.join(map(go_quote, texts))}]"
