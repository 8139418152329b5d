"""Several authorizers in a row, and the group that passes before all of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.webhook.awaited import when_decided
from understudy.machinery.auth.always_allow import ALLOWED
from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.golang.text import aggregate


class Union:
    """Asks authorizers in turn, until one allows or denies; members of `system:masters` may do everything.

    What none allows or denies has the reasons of all, a line each, and their errors. Upstream: `union.New` behind
    `NewPrivilegedGroups`.

    authorizers  with their types, by name
    names        whether a reason begins with the name of its authorizer
    """

    def __init__(
        self, authorizers: Mapping[str, tuple[str, Authorizer]], metrics: AuthorizationMetrics, *, names: bool
    ) -> None:
        self._authorizers = authorizers
        self._metrics = metrics
        self._names = names

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision of the first authorizer that allows or denies it, or that none does."""
        if MASTERS in user.groups:
            return ALLOWED
        reasons, errors = list[str](), list[str]()
        for name, (type_, authorizer) in self._authorizers.items():
            decision = authorizer.authorize(user, attributes)
            if decision.allowed or decision.denied:
                when_decided(partial(self._metrics.decide, type_, name, allowed=decision.allowed))
                return decision
            if decision.error:
                errors.append(decision.error)
            if decision.reason:
                reasons.append(f"{name}: {decision.reason}" if self._names else decision.reason)
        return Decision(False, "\n".join(reasons), error=aggregate(errors) if errors else "")

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return the rules of all authorizers."""
        every = [authorizer.rules_for(user, namespace) for _, authorizer in self._authorizers.values()]
        errors = [rules.evaluation_error for rules in every if rules.evaluation_error]
        return SubjectRules(
            [rule for rules in every for rule in rules.resource_rules],
            [rule for rules in every for rule in rules.non_resource_rules],
            any(rules.incomplete for rules in every),
            aggregate(errors) if errors else "",
        )
