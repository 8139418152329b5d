"""Authorization that allows everything (`--authorization-mode=AlwaysAllow`)."""

from __future__ import annotations

from understudy.apiserver.authorization.authorizer import Attributes, Decision, SubjectRules
from understudy.machinery.users import User

ALLOWED = Decision(True)


class AlwaysAllow:
    """Allows everything to everybody. Upstream: `alwaysAllowAuthorizer`."""

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return ALLOWED

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return SubjectRules(resources, [{"verbs": ["*"], "nonResourceURLs": ["*"]}], incomplete=False)
