"""Counting of what became of each call of a webhook."""

from __future__ import annotations

from understudy.admission.chain import Attributes
from understudy.admission.metrics import AdmissionMetrics
from understudy.admission.plugins.webhook.hooks import Hook
from understudy.admission.plugins.webhook.review import CallingWebhookError, WebhookRejectionError


def observe(
    metrics: AdmissionMetrics, hook: Hook, attributes: Attributes, step: str, seconds: float, error: Exception | None
) -> None:
    """Count a call of a webhook, or that it could not be called. `error`: what came of it, None for success."""
    code, error_type = 200, None
    if isinstance(error, CallingWebhookError):
        code = error.code
        if hook.ignores_failures:
            metrics.webhooks_failed_open.add(hook.name, step)
        else:
            error_type = "calling_webhook_error"
    elif isinstance(error, WebhookRejectionError):
        code, error_type = error.code, "no_error"
    elif error is not None:
        code, error_type = 0, "apiserver_internal_error"
    metrics.observe_webhook(hook.name, str(attributes.point.operation), step, seconds, code, error_type)
