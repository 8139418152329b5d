"""The authorizer that asks a webhook. Upstream: k8s.io/apiserver/plugin/pkg/authorizer/webhook."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from understudy.admission.generic_webhook import GenericWebhook, result_of
from understudy.admission.webhooks import CallError
from understudy.apiserver.authorization.metrics import WebhookMetrics
from understudy.apiserver.authorization.webhook.awaited import Answer, answer_to, once
from understudy.apiserver.authorization.webhook.review import in_version, spec_of
from understudy.machinery.auth.authorization import Attributes, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults

if TYPE_CHECKING:
    from understudy.apiserver.authorization.webhook.match_conditions import MatchConditions

log = logging.getLogger("understudy")
KEPT = 8192  # answers that are kept
LONGEST = 10_000  # characters of a request's attributes from which on its answer is not kept
NO_OPINION = Decision(False)
NO_RULES = "webhook authorizer does not support user rule resolution"
BOTH = "webhook subject access review returned both allow and deny response"


class Caching(NamedTuple):
    """The seconds that answers are kept: those that allow, and all others."""

    authorized: float
    unauthorized: float


class WebhookAuthorizer:
    """Allows what a webhook allows, and may refuse for all others.

    name           by which metrics know it
    version        of the SubjectAccessReviews, v1 or v1beta1
    denies_errors  whether nobody else is asked when the webhook cannot be
    selectors      whether it is told the selectors of lists
    conditions     that have to be true for it to be asked, None for none
    """

    def __init__(
        self,
        name: str,
        webhook: GenericWebhook,
        version: str,
        caching: Caching,
        clock: Clock,
        metrics: WebhookMetrics,
        *,
        denies_errors: bool = False,
        selectors: bool = True,
        conditions: MatchConditions | None = None,
    ) -> None:
        self._name = name
        self._webhook = webhook
        self._metrics = metrics
        self._version = version
        self._caching = caching
        self._answers: ExpiringResults[bytes, Obj] = ExpiringResults(KEPT, clock)
        self._denies_errors = denies_errors
        self._selectors = selectors
        self._conditions = conditions

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision of the webhook. Raises DecisionAwaitedError if it has to be asked."""
        spec = spec_of(user, attributes, selectors=self._selectors)
        key = encode(spec)
        if self._conditions is not None:
            matches, error = once((id(self._conditions), key), partial(self._conditions.match, spec))
            if error:
                return Decision(False, "", self._denies_errors, error)
            if not matches:
                return NO_OPINION
        answer: Answer | None = self._answers.get(key)
        if answer is None:
            answer = answer_to((id(self), key), partial(self._ask, spec, key, is_kept=_is_short(attributes)))
        if isinstance(answer, CallError):
            return Decision(False, "", self._denies_errors, str(answer))
        return _decision(answer)

    async def _ask(self, spec: Obj, key: bytes, *, is_kept: bool) -> Answer:
        """Ask the webhook; return the status of its review, or the error."""
        try:
            asked = {"spec": in_version(spec, self._version), "status": {"allowed": False}}
            review = await self._webhook.create(asked, partial(self._metrics.observe, self._name))
        except CallError as error:
            if not self._denies_errors:
                self._metrics.fail_open(self._name, result_of(error))
            log.error("Failed to make webhook authorizer request: %s", error)
            return error
        status: Obj = review.get("status") or {}
        if is_kept:
            allowed = status.get("allowed")
            self._answers.add(key, status, self._caching.authorized if allowed else self._caching.unauthorized)
        return status

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return no rules, and that there may be some."""
        return SubjectRules([], [], incomplete=True, evaluation_error=NO_RULES)


def _decision(status: Obj) -> Decision:
    """Return the decision that a status says."""
    allowed, denied, reason = status.get("allowed", False), status.get("denied", False), status.get("reason", "")
    return Decision(allowed and not denied, reason, denied, BOTH if allowed and denied else "")


def _is_short(attributes: Attributes) -> bool:
    """Report whether an answer may be kept: a request could fill the memory otherwise. Upstream: `shouldCache`."""
    of = attributes
    texts = (of.namespace, of.verb, of.group, of.version, of.resource, of.subresource, of.name, of.path)
    return sum(map(len, texts)) < LONGEST
