"""ValidatingAdmissionWebhook: let webhooks refuse requests (upstream: plugin/webhook/validating)."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Point
from understudy.admission.context import Context
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.webhook.hooks import Hook, HookSource, versions_by_kind
from understudy.admission.plugins.webhook.review import CallingWebhookError, Question, question, verdict
from understudy.admission.webhooks import WebhookClient
from understudy.apiserver.authorization.authorizer import Authorizer
from understudy.machinery.errors import StatusError


class ValidatingAdmissionWebhook:
    """Asks the webhooks of ValidatingWebhookConfigurations, all at once."""

    name = "ValidatingAdmissionWebhook"

    def __init__(self, objects: ObjectInterfaces, authorizer: Authorizer, client: WebhookClient) -> None:
        self.source = HookSource("validatingwebhookconfigurations", objects, authorizer)
        self._objects = objects
        self._client = client

    def handles(self, point: Point) -> bool:
        """Report whether a webhook could be called about requests of a kind."""
        return self.source.handles(point)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise the error of the first webhook, in their order, that refuses a request or cannot be asked."""
        versioned = versions_by_kind(attributes, self._objects)
        matches = [(hook, self.source.match(hook, attributes, ctx, versioned)) for hook in self.source.hooks()]
        asked: list[Question] = []
        failures: list[StatusError] = []
        for hook, match in matches:
            if match is None:
                continue
            try:
                asked.append(question(hook, match, versioned(match.kind)))
            except (CallingWebhookError, StatusError) as error:
                failures += _failures(hook, error)
        answers = await self._client.call([item.call for item in asked]) if asked else []
        for item, answer in zip(asked, answers, strict=True):
            try:
                verdict(item, answer, ctx, mutating=False)
            except (CallingWebhookError, StatusError) as error:
                failures += _failures(item.hook, error)
        if failures:
            raise failures[0]


def _failures(hook: Hook, error: CallingWebhookError | StatusError) -> list[StatusError]:
    """Return the error with which a webhook stops a request, as its failure policy says."""
    if isinstance(error, StatusError):
        return [error]
    return [] if hook.ignores_failures else [error.status_error()]
