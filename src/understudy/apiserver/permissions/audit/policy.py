"""Audit policies: which requests are logged, at which level, at which stages.

https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/ (upstream: k8s.io/apiserver/pkg/audit/policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.types import NamedTuple, Obj, dataclass

REQUEST_RECEIVED, RESPONSE_STARTED = "RequestReceived", "ResponseStarted"
RESPONSE_COMPLETE, PANIC = "ResponseComplete", "Panic"
STAGES = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)


class Level(IntEnum):
    """Says how much of a request is logged; each level includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}
LEVELS = {name: level for level, name in _NAMES.items()}


class RequestAudit(NamedTuple):
    """The parts of one request that are logged (`RequestAuditConfig`)."""

    level: Level
    omit_stages: frozenset[str]
    omit_managed_fields: bool


@dataclass(frozen=True)
class Rule:
    """A rule of a policy; an empty field matches everything."""

    audit: RequestAudit
    users: Sequence[str]
    groups: Sequence[str]
    verbs: Sequence[str]
    resources: Sequence[Obj]
    namespaces: Sequence[str]
    urls: Sequence[str]

    def matches(self, user: User | None, action: Attributes) -> bool:
        """Report whether the rule is about a request; `user` is None for one that was not authenticated."""
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.groups and (user is None or not any(group in self.groups for group in user.groups)):
            return False
        if self.verbs and action.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return action.is_resource and self._matches_resource(action)
        if self.urls:
            return not action.is_resource and any(_path_matches(action.path, url) for url in self.urls)
        return True

    def _matches_resource(self, action: Attributes) -> bool:
        if self.namespaces and action.namespace not in self.namespaces:
            return False
        return not self.resources or any(_resource_matches(each, action) for each in self.resources)


def _path_matches(path: str, url: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def _resource_matches(expected: Obj, action: Attributes) -> bool:
    """Report whether a group with its resources has that of a request (`ruleMatchesResource`)."""
    if expected.get("group", "") not in ("*", action.group):
        return False
    resources, names = expected.get("resources") or (), expected.get("resourceNames") or ()
    if not resources:
        return True
    if names and action.name not in names:
        return False
    combined = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    accepted = {combined, "*", f"{action.resource}/*"} | ({f"*/{action.subresource}"} if action.subresource else set())
    return any(each in accepted for each in resources)


class Policy:
    """An audit policy: the first rule that matches a request decides."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules

    def evaluate(self, user: User | None, action: Attributes) -> RequestAudit | None:
        """Return the parts of a request that are logged, None for none."""
        for rule in self._rules:
            if rule.matches(user, action):
                return rule.audit if rule.audit.level else None
        return None
