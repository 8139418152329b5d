"""Rules of flow schemas: which users they are about, and which requests they match.

Upstream: k8s.io/apiserver/pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import ACCOUNT, User, account_name
from understudy.machinery.types import NamedTuple, Obj

EVERY = "*"  # alone in a list, it stands for every value; this is all it can do there


def matches_subject(user: User, subject: Obj) -> bool:
    """Report whether a user is the user, one of the group or the service account that a subject names."""
    match subject["kind"]:
        case "User":
            return subject["user"]["name"] in (EVERY, user.name)
        case "Group":
            name = subject["group"]["name"]
            return name == EVERY or name in user.groups
        case _:
            account = subject["serviceAccount"]
            if account["name"] == EVERY:
                return user.name.startswith(f"{ACCOUNT}{account['namespace']}:")
            return user.name == account_name(account["namespace"], account["name"])


def _names(names: list[str]) -> frozenset[str] | None:
    """Return the names of a list, None if it stands for every name."""
    return None if names == [EVERY] else frozenset(names)


class ResourceRule(NamedTuple):
    """A rule for requests to resources (`ResourcePolicyRule`). None stands for all verbs, groups and so on."""

    verbs: frozenset[str] | None
    groups: frozenset[str] | None
    resources: frozenset[str] | None
    namespaces: frozenset[str] | None
    cluster_scope: bool

    @classmethod
    def of(cls, rule: Obj) -> Self:
        """Return the rule that a flow schema holds."""
        verbs, groups, resources = _names(rule["verbs"]), _names(rule["apiGroups"]), _names(rule["resources"])
        return cls(verbs, groups, resources, _names(rule["namespaces"] or []), rule.get("clusterScope", False))

    @property
    def everything(self) -> bool:
        """Report whether the rule matches every request to a resource."""
        return self == ResourceRule(None, None, None, None, True)

    def matches(self, request: Attributes) -> bool:
        """Report whether the rule matches a request to a resource."""
        if self.verbs is not None and request.verb not in self.verbs:
            return False
        if self.groups is not None and request.group not in self.groups:
            return False
        if self.resources is not None:
            resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
            if resource not in self.resources:
                return False
        if not request.namespace:
            return self.cluster_scope
        return self.namespaces is None or request.namespace in self.namespaces


class NonResourceRule(NamedTuple):
    """A rule for requests to other paths (`NonResourcePolicyRule`). None stands for all verbs.

    A path stands for what is below it as well: /healthz matches /healthz/etcd.
    """

    verbs: frozenset[str] | None
    paths: tuple[str, ...]

    @classmethod
    def of(cls, rule: Obj) -> Self:
        """Return the rule that a flow schema holds."""
        return cls(_names(rule["verbs"]), tuple(rule["nonResourceURLs"]))

    @property
    def everything(self) -> bool:
        """Report whether the rule matches every request that is to no resource."""
        return self.verbs is None and EVERY in self.paths

    def matches(self, request: Attributes) -> bool:
        """Report whether the rule matches a request that is to no resource."""
        if self.verbs is not None and request.verb not in self.verbs:
            return False
        return any(_matches_path(path, request.path) for path in self.paths)


def _matches_path(rule_path: str, path: str) -> bool:
    if rule_path in (EVERY, path):
        return True
    folder = rule_path.removesuffix(EVERY)
    return path.startswith(folder if folder.endswith("/") else f"{folder}/")


Rule = ResourceRule | NonResourceRule
RULES: dict[str, Callable[[Obj], Rule]] = {"resourceRules": ResourceRule.of, "nonResourceRules": NonResourceRule.of}
