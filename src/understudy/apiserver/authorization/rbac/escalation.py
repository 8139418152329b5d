"""Keeps users from granting rights that they do not hold, by writing roles and bindings.

Source: k8s.io/kubernetes/pkg/registry/rbac/{clusterrole,role,rolebinding,clusterrolebinding}/policybased.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.apiserver.authorization.rbac.authorizer import GROUP, RBACAuthorizer
from understudy.apiserver.authorization.rbac.rules import compact, compact_string, quoted, uncovered
from understudy.kinds.common.garbage_collection import changes_only_gc_fields
from understudy.machinery import errors
from understudy.machinery.auth.authorization import Attributes, Authorizer
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.types import Obj

FULL_AUTHORITY = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


class EscalationCheck:
    """Checks writes of roles and bindings.

    authorizer  decides whether a user has the verbs `escalate` and `bind`
    rbac        knows the rules that users hold
    """

    def __init__(self, authorizer: Authorizer, rbac: RBACAuthorizer, version: Version) -> None:
        self._authorizer = authorizer
        self._rbac = rbac
        self._version = version

    def asking(self, authorizer: Authorizer) -> EscalationCheck:
        """Return the same check with another way to ask for decisions."""
        return EscalationCheck(authorizer, self._rbac, self._version)

    def check(self, user: User, request: Attributes, obj: Obj, old: Obj | None) -> None:
        """Raise 403 if an object gives rights that the user does not hold, 404 for a binding to a missing role, 400 for
        one without a name.

        `obj` takes the place of `old`, or is created (None). Other kinds than roles and bindings pass.
        """
        if request.group != GROUP or MASTERS in user.groups:
            return
        if request.resource in ("roles", "clusterroles"):
            if not (self._may_escalate(user, request) or changes_only_gc_fields(obj, old)):
                self._check_role(user, request, obj, old or {})
        elif not (changes_only_gc_fields(obj, old) or self._may_bind(user, request, obj["roleRef"])):
            self._check_binding(user, request, obj)

    def _may_escalate(self, user: User, request: Attributes) -> bool:
        """Report whether a user may write any rules into a role. Upstream: `RoleEscalationAuthorized`."""
        return self._allowed(user, "escalate", request.resource, request.namespace, request.name)

    def _may_bind(self, user: User, request: Attributes, role: Mapping[str, str]) -> bool:
        """Report whether a user may bind a role, whatever its rules. Upstream: `BindingAuthorized`."""
        resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(role.get("kind", ""))
        return resource is not None and self._allowed(user, "bind", resource, request.namespace, role.get("name", ""))

    def _allowed(self, user: User, verb: str, resource: str, namespace: str, name: str) -> bool:
        question = Attributes("", verb, True, GROUP, "*", namespace, resource, name=name)
        return self._authorizer.authorize(user, question).allowed

    def _check_role(self, user: User, request: Attributes, role: Obj, old: Obj) -> None:
        name = role["metadata"].get("name", "")
        if missing := self._missing(user, request, role.get("rules") or ()):
            raise _forbidden(request, name, missing)
        aggregates = any((each.get("aggregationRule") or {}).get("clusterRoleSelectors") for each in (role, old))
        if aggregates and self._missing(user, request, FULL_AUTHORITY):
            raise _forbidden(request, name, AGGREGATION)

    def _check_binding(self, user: User, request: Attributes, binding: Obj) -> None:
        reference = binding["roleRef"]
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if kind not in ("Role", "ClusterRole"):
            raise errors.unknown_error(f"unsupported role reference kind: {go_quote(kind)}")
        if not name:
            raise errors.bad_request("Name parameter required.")
        rules = self._rbac.role(kind, request.namespace, name)
        if rules is None:
            raise errors.not_found(GROUP, self._resource_of_missing(kind, request), name)
        if missing := self._missing(user, request, [rule.value for rule in rules]):
            raise _forbidden(request, binding["metadata"].get("name", ""), missing)

    def _missing(self, user: User, request: Attributes, rules: Iterable[Obj]) -> str:
        """Return the text about rules that a user does not hold, "" if there are none.

        Upstream: `ConfirmNoEscalation`.
        """
        grants = self._rbac.grants(user, request.namespace)
        missing = uncovered([rule for grant in grants for rule in grant.rules or ()], rules)
        if not missing:
            return ""
        lines = "\n".join(sorted({compact_string(rule) for rule in compact(missing)}))
        text = (
            f"user {go_quote(user.name)} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not "
            f"currently held:\n{lines}"
        )
        absent = dict.fromkeys(
            errors.not_found(GROUP, self._resource_of_missing(grant.role[0], request), grant.role[1]).message
            for grant in grants
            if grant.rules is None
        )
        return f"{text}; resolution errors: [{aggregate(absent)}]" if absent else text

    def _resource_of_missing(self, kind: str, request: Attributes) -> str:
        """Return the resource by which errors call a role that does not exist: that of the request, since 1.32."""
        return request.resource if self._version >= V1_32 else f"{kind.lower()}s"


def _forbidden(request: Attributes, name: str, text: str) -> StatusError:
    return errors.forbidden(GROUP, request.resource, name, text).by("RBAC")
