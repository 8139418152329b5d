"""ValidatingAdmissionWebhook: let webhooks refuse requests (upstream: plugin/webhook/validating)."""

from __future__ import annotations

from understudy.admission.chain import Attributes
from understudy.admission.plugins.webhook.hooks import VALIDATING, Hook, versions_by_kind
from understudy.admission.plugins.webhook.metrics import observe
from understudy.admission.plugins.webhook.plugin import WebhookPlugin
from understudy.admission.plugins.webhook.review import CallingWebhookError, Question, question, verdict
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError


class ValidatingAdmissionWebhook(WebhookPlugin):
    """Asks the webhooks of ValidatingWebhookConfigurations, all at once."""

    name = "ValidatingAdmissionWebhook"
    configurations = "validatingwebhookconfigurations"
    admission_type = VALIDATING

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise the error of the first webhook, in their order, that refuses a request or cannot be asked."""
        versioned = versions_by_kind(attributes, self._objects)
        matches = [
            (hook, await self.source.match(hook, attributes, ctx, versioned))
            for hook in self.source.hooks(attributes.point)
        ]
        asked: list[Question] = []
        outcomes: list[tuple[Hook, float, CallingWebhookError | StatusError | None]] = []
        for hook, match in matches:
            if match is None:
                continue
            try:
                asked.append(
                    question(hook, match, versioned(match.kind), self._objects, self._users, ctx, "validating")
                )
            except (CallingWebhookError, StatusError) as error:
                outcomes.append((hook, 0.0, error))
        answers = await self._client.call([item.call for item in asked]) if asked else []
        for item, answer in zip(asked, answers, strict=True):
            outcome: CallingWebhookError | StatusError | None = None
            ctx.track("validating-webhook", answer.seconds)
            try:
                verdict(item, answer.result, ctx, mutating=False)
            except (CallingWebhookError, StatusError) as error:
                outcome = error
            outcomes.append((item.hook, answer.seconds, outcome))
        for hook, seconds, outcome in outcomes:
            observe(self._metrics, hook, attributes, VALIDATING, seconds, outcome)
        asked_hooks = [hook.key for hook, match in matches if match is not None]
        for hook, _, outcome in outcomes:
            if isinstance(outcome, CallingWebhookError) and hook.ignores_failures:
                key = f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{asked_hooks.index(hook.key)}"
                ctx.annotate(key, hook.name)
        for hook, _, outcome in outcomes:
            if outcome is not None:
                _raise_failure(hook, outcome)


def _raise_failure(hook: Hook, error: CallingWebhookError | StatusError) -> None:
    """Raise the error with which a webhook stops a request, if its failure policy does not ignore it."""
    if isinstance(error, StatusError):
        raise error.by(hook.title)
    if not hook.ignores_failures:
        raise error.status_error().by(hook.title)
