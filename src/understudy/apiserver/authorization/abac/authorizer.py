"""The authorizer that asks the policies of a file. Upstream: k8s.io/kubernetes/pkg/auth/authorizer/abac."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.machinery.auth.authorization import Attributes, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.types import NamedTuple

READS = ("get", "list", "watch")
ANY = "*"


class Policy(NamedTuple):
    """One line of a policy file (`abac.PolicySpec`), in which "*" matches everything.

    user, group        who may do it: whoever matches both, of which one may be empty
    readonly           whether only reads are allowed
    resource, api_group, namespace
                       what is allowed of resources
    non_resource_path  the path that is allowed, or its beginning and a star
    """

    user: str = ""
    group: str = ""
    readonly: bool = False
    resource: str = ""
    api_group: str = ""
    namespace: str = ""
    non_resource_path: str = ""

    def concerns(self, user: User) -> bool:
        """Report whether the policy is for a user. Upstream: `subjectMatches`."""
        if self.user not in ("", ANY, user.name) or (self.group not in ("", ANY) and self.group not in user.groups):
            return False
        return bool(self.user or self.group)

    def allows(self, attributes: Attributes) -> bool:
        """Report whether the policy is for an action. Upstream: `verbMatches` and what follows it."""
        if self.readonly and attributes.verb not in READS:
            return False
        if not attributes.is_resource:
            return self._allows_path(attributes.path)
        return (
            self.namespace in (ANY, attributes.namespace)
            and self.resource in (ANY, attributes.resource)
            and self.api_group in (ANY, attributes.group)
        )

    def _allows_path(self, path: str) -> bool:
        allowed = self.non_resource_path
        return path == allowed or (allowed.endswith(ANY) and path.startswith(allowed.rstrip(ANY)))


class ABACAuthorizer:
    """Allows what one of the policies allows."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        if any(policy.concerns(user) and policy.allows(attributes) for policy in self._policies):
            return Decision(True)
        return Decision(False, "No policy matched.")

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return a rule for the resource and one for the path of each policy of a user in a namespace."""
        concerned = [each for each in self._policies if each.concerns(user) and each.namespace in (ANY, namespace)]
        return SubjectRules(
            [
                {"verbs": _verbs(policy), "apiGroups": [policy.api_group], "resources": [policy.resource]}
                for policy in concerned
                if policy.resource
            ],
            [
                {"verbs": _verbs(policy), "nonResourceURLs": [policy.non_resource_path]}
                for policy in concerned
                if policy.non_resource_path
            ],
            incomplete=False,
        )


def _verbs(policy: Policy) -> list[str]:
    return [*READS] if policy.readonly else [ANY]
