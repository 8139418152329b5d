"""Authorization that allows everything (`--authorization-mode=AlwaysAllow`)."""

from __future__ import annotations

from understudy.machinery.auth.authorization import Attributes, Decision, SubjectRules
from understudy.machinery.auth.users import User

ALLOWED = Decision(True)


class AlwaysAllow:
    """Allows everything to everybody. Upstream: `alwaysAllowAuthorizer`."""

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return ALLOWED

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return rules that allow every verb on every resource and path."""
        resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        return SubjectRules(resources, [{"verbs": ["*"], "nonResourceURLs": ["*"]}], incomplete=False)
