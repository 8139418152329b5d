"""ValidatingAdmissionWebhook: let webhooks refuse requests (upstream: plugin/webhook/validating)."""

from __future__ import annotations

from functools import partial

from understudy.admission.chain import Attributes, Point
from understudy.admission.manifest.source import NO_MANIFESTS, StaticManifests
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.webhook.hooks import VALIDATING, Hook, HookSource, versions_by_kind
from understudy.admission.plugins.webhook.metrics import observe
from understudy.admission.plugins.webhook.review import CallingWebhookError, Question, question, verdict
from understudy.admission.webhooks import WebhookClient
from understudy.kinds.context import Context
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.errors import StatusError


class ValidatingAdmissionWebhook:
    """Asks the webhooks of ValidatingWebhookConfigurations, all at once."""

    name = "ValidatingAdmissionWebhook"

    def __init__(
        self,
        objects: ObjectInterfaces,
        authorizer: Authorizer,
        client: WebhookClient,
        metrics: AdmissionMetrics,
        manifests: StaticManifests = NO_MANIFESTS,
    ) -> None:
        static = partial(manifests.of, self.name)
        self.source = HookSource("validatingwebhookconfigurations", VALIDATING, objects, authorizer, metrics, static)
        self._objects = objects
        self._client = client
        self._metrics = metrics

    def handles(self, point: Point) -> bool:
        return self.source.handles(point)

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
                asked.append(question(hook, match, versioned(match.kind), self._objects, ctx))
            except (CallingWebhookError, StatusError) as error:
                outcomes.append((hook, 0.0, error))
        answers = await self._client.call([item.call for item in asked]) if asked else []
        for item, answer in zip(asked, answers, strict=True):
            outcome: CallingWebhookError | StatusError | None = None
            try:
                verdict(item, answer.result, ctx, mutating=False)
            except (CallingWebhookError, StatusError) as error:
                outcome = error
            outcomes.append((item.hook, answer.seconds, outcome))
        for hook, seconds, outcome in outcomes:
            observe(self._metrics, hook, attributes, VALIDATING, seconds, outcome)
        for hook, _, outcome in outcomes:
            if outcome is not None:
                _raise_failure(hook, outcome)


def _raise_failure(hook: Hook, error: CallingWebhookError | StatusError) -> None:
    """Raise the error with which a webhook stops a request, if its failure policy does not ignore it."""
    if isinstance(error, StatusError):
        raise error
    if not hook.ignores_failures:
        raise error.status_error()
