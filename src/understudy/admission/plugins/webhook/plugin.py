"""The part that the two plugins share that ask webhooks (upstream: plugin/webhook/generic)."""

from __future__ import annotations

from functools import partial

from understudy.admission.chain import Point
from understudy.admission.manifest.source import NO_MANIFESTS, StaticManifests
from understudy.admission.manifest.webhook_users import NOBODY, WebhookUsers
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.objects import ObjectInterfaces
from understudy.admission.plugins.webhook.hooks import HookSource
from understudy.admission.webhooks import WebhookClient
from understudy.machinery.auth.authorization import Authorizer


class WebhookPlugin:
    """Knows the webhooks in force of one type of admission, and the client that asks them.

    configurations   the resource that configures the webhooks
    admission_type   the type of admission, as metrics call it
    """

    name: str
    configurations: str
    admission_type: str

    def __init__(
        self,
        objects: ObjectInterfaces,
        authorizer: Authorizer,
        client: WebhookClient,
        metrics: AdmissionMetrics,
        manifests: StaticManifests = NO_MANIFESTS,
        users: WebhookUsers = NOBODY,
    ) -> None:
        static = partial(manifests.of, self.name)
        self.source = HookSource(self.configurations, self.admission_type, objects, authorizer, metrics, static)
        self._objects = objects
        self._client = client
        self._users = users
        self._metrics = metrics

    def handles(self, point: Point) -> bool:
        return self.source.handles(point)
