"""The question whether a user may do something, and who answers it.

https://kubernetes.io/docs/reference/access-authn-authz/authorization/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Protocol

from understudy.machinery.auth.users import User
from understudy.machinery.releases.version import V1_37
from understudy.machinery.selectors.fields import FieldTerm, parse_fields
from understudy.machinery.selectors.labels import Requirement, SelectorError, parse_labels
from understudy.machinery.types import NamedTuple, Obj, dataclass


@dataclass(frozen=True, slots=True)
class Attributes:
    """The action that a user asks to take. Upstream: `authorizer.Attributes`.

    path         the path of the request, without the query
    verb         create, get, list, watch, update, patch, delete, deletecollection, proxy, impersonate, …; the method in
                 lower case for a path that is no resource
    is_resource  whether the path is a resource's; the fields below are empty for any other
    field_selector
                 the terms of the field selector of a list, watch or deletecollection, () without one. It does not
                 make attributes unequal: routes, which are looked up by them, do not depend on it
    label_selector
                 the requirements of the label selector, as `field_selector`; in a request only for servers that ask
                 webhooks, since no other authorizer looks at them
    """

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: tuple[FieldTerm, ...] = field(default=(), compare=False)
    label_selector: tuple[Requirement, ...] = field(default=(), compare=False)


def field_terms(selector: str) -> tuple[FieldTerm, ...]:
    """Return the terms of a field selector, () for one that cannot be parsed: it is refused after authorization."""
    try:
        return parse_fields(selector)
    except SelectorError:
        return ()


def label_requirements(selector: str) -> tuple[Requirement, ...]:
    """Return the requirements of a label selector, by their keys; () for one that cannot be parsed."""
    try:
        return tuple(sorted(parse_labels(selector, V1_37), key=attrgetter("key")))
    except SelectorError:
        return ()


class Decision(NamedTuple):
    """An answer to whether something is allowed.

    reason  for people, may be empty
    denied  whether no other authorizer is asked; others have no opinion unless they allow
    error   what went wrong on the way, "" for nothing
    """

    allowed: bool
    reason: str = ""
    denied: bool = False
    error: str = ""

    @property
    def refusal(self) -> str:
        """Return the error and the reason, as messages of a 403 have them that know of both."""
        return ": ".join(filter(None, (self.error, self.reason)))


class SubjectRules(NamedTuple):
    """The actions that a user may take in a namespace (`SubjectRulesReviewStatus`).

    incomplete        whether there may be more
    evaluation_error  what went wrong on the way, "" for nothing
    """

    resource_rules: list[Obj]
    non_resource_rules: list[Obj]
    incomplete: bool
    evaluation_error: str = ""


class Authorizer(Protocol):
    """Decides what users may do. Upstream: `authorizer.Authorizer` and `authorizer.RuleResolver`."""

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return whether the user may do it. Asked on every request."""

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return the rules of a user in a namespace."""


class StoredObjects(Protocol):
    """The objects that an authorizer decides by."""

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        """Return all stored objects of a resource, in the order of their keys."""

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        """Call a function after every write of a resource, for as long as the server lives."""
