"""Users by what a server outside says of their tokens.

Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256

from understudy.admission.generic_webhook import GenericWebhook
from understudy.admission.webhooks import CallError
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.authorization.webhook.awaited import Answer, answer_to
from understudy.machinery.auth.users import User
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults

log = logging.getLogger("understudy")
KINDS: Mapping[str, GroupVersionKind] = {
    version: GroupVersionKind("authentication.k8s.io", version, "TokenReview") for version in ("v1", "v1beta1")
}
KEPT = 32 * 1024  # answers that are kept
LEAST = 10.0  # seconds that a user is known: `TokenSuccessCacheTTL` of all tokens


class WebhookTokens:
    """Knows users by the TokenReviews of a webhook.

    audiences  of the server itself: those of tokens of which the webhook names none
    seconds    that its answers are kept, but for those with an error
    """

    def __init__(self, webhook: GenericWebhook, audiences: Sequence[str], seconds: float, clock: Clock) -> None:
        self._webhook = webhook
        self._audiences = audiences
        self._seconds = seconds
        self._answers: ExpiringResults[bytes, Obj] = ExpiringResults(KEPT, clock)

    def user(self, token: str, audiences: Sequence[str]) -> tuple[User, list[str]]:
        """Return the user of a token, and which of the audiences it is for. Raises TokenError, and DecisionAwaitedError
        if the webhook has to be asked."""
        spec: Obj = {"token": token, "audiences": list(audiences)}
        key = sha256(encode(spec)).digest()
        answer: Answer | None = self._answers.get(key)
        if answer is None:
            answer = answer_to((id(self), key), partial(self._ask, spec, key))
        if isinstance(answer, CallError):
            raise TokenError(str(answer))
        meant = [audience for audience in answer.get("audiences") or self._audiences if audience in audiences]
        if not meant or not answer.get("authenticated"):
            raise TokenError(answer.get("error", "") if meant else "")
        return User.of_info(answer.get("user") or {}), meant

    async def _ask(self, spec: Obj, key: bytes) -> Answer:
        """Ask the webhook; return the status of its review, or the error."""
        try:
            review = await self._webhook.create({"spec": spec, "status": {"user": {}}})
        except CallError as error:
            log.error("Failed to make webhook authenticator request: %s", error)
            return error
        status: Obj = review.get("status") or {}
        if status.get("authenticated"):
            self._answers.add(key, status, max(self._seconds, LEAST))
        elif not status.get("error"):
            self._answers.add(key, status, self._seconds)
        return status
