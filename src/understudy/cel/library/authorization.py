"""The `authorizer` library of admission policies (`authz.go`): asks what the user of a request may do.

Every environment declares it, but only policies have a value to call it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from understudy.cel.errors import EvaluationError
from understudy.cel.limits.interrupts import current_meter
from understudy.cel.types import Type, struct
from understudy.cel.values import Value
from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision
from understudy.machinery.auth.users import User, account_groups, account_name
from understudy.machinery.selectors.fields import FieldTerm
from understudy.machinery.selectors.labels import Requirement
from understudy.machinery.types import dataclass
from understudy.machinery.validation.names import dns_label_texts, dns_subdomain_texts


@dataclass(frozen=True, slots=True)
class AuthorizerValue:
    """The value of `authorizer`: the right of a user to ask."""

    cel_type: ClassVar[Type] = struct("kubernetes.authorization.Authorizer")
    authorizer: Authorizer
    user: User

    def decide(self, attributes: Attributes) -> DecisionValue:
        """Return whether the user may do something."""
        return DecisionValue(current_meter().outside(self.authorizer.authorize, self.user, attributes))


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A path that is no resource, of which a verb can be checked."""

    cel_type: ClassVar[Type] = struct("kubernetes.authorization.PathCheck")
    authorizer: AuthorizerValue
    path: str


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """An API group, of which a resource can be chosen."""

    cel_type: ClassVar[Type] = struct("kubernetes.authorization.GroupCheck")
    authorizer: AuthorizerValue
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A resource, of which a verb can be checked."""

    cel_type: ClassVar[Type] = struct("kubernetes.authorization.ResourceCheck")
    authorizer: AuthorizerValue
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: tuple[FieldTerm, ...] = ()
    label_selector: tuple[Requirement, ...] = ()

    def check(self, verb: str) -> DecisionValue:
        """Return whether the user may use a verb such as `get` on the resource."""
        return self.authorizer.decide(
            Attributes(
                "",
                verb,
                True,
                self.group,
                "*",
                self.namespace,
                self.resource,
                self.subresource,
                self.name,
                self.field_selector,
                self.label_selector,
            )
        )


@dataclass(frozen=True, slots=True)
class DecisionValue:
    """The answer to a check."""

    cel_type: ClassVar[Type] = struct("kubernetes.authorization.Decision")
    decision: Decision


def _path(authorizer: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _service_account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    """Return the authorizer that asks for a service account."""
    if dns_subdomain_texts(name):
        raise EvaluationError("Invalid service account name")
    if dns_label_texts(namespace):
        raise EvaluationError("Invalid service account namespace")
    return replace(authorizer, user=User(account_name(namespace, name), account_groups(namespace)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": lambda check, subresource: replace(check, subresource=subresource),
    "resourcecheck_namespace": lambda check, namespace: replace(check, namespace=namespace),
    "resourcecheck_name": lambda check, name: replace(check, name=name),
    "resourcecheck_check": ResourceCheck.check,
    "pathcheck_check": lambda check, verb: check.authorizer.decide(Attributes(check.path, verb)),
    "decision_allowed": lambda value: value.decision.allowed,
    "decision_reason": lambda value: value.decision.reason,
    "decision_errored": lambda value: bool(value.decision.error),
    "decision_error": lambda value: value.decision.error,
}
