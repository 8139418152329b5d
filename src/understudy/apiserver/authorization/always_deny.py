"""Authorization that allows nothing (`--authorization-mode=AlwaysDeny`)."""

from __future__ import annotations

from understudy.machinery.auth.authorization import Attributes, Decision, SubjectRules
from understudy.machinery.auth.users import User

FORBIDDEN = Decision(False, "Everything is forbidden.")


class AlwaysDeny:
    """Allows nothing to anybody. Upstream: `alwaysDenyAuthorizer`."""

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return FORBIDDEN

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return SubjectRules([], [], incomplete=False)
