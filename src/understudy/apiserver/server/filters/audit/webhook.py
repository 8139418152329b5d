"""Sends audit events to a webhook. Upstream: k8s.io/apiserver/plugin/pkg/audit/webhook."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.admission.webhooks import Call, CallError, WebhookClient, error_of
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.admission.generic_webhook import Endpoint

TIMEOUT = 30  # seconds of a call
STEPS, FACTOR, JITTER = 5, 1.5, 0.2  # of `DefaultRetryBackoffWithInitialDelay`
LIST = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}}


class WebhookPlugin:
    """Sends events as EventLists to the server of a kubeconfig.

    schemas  read the Status in which the server may say what is wrong
    backoff  seconds before an EventList is sent again; each time half as many more
    """

    name = "webhook"

    def __init__(self, endpoint: Endpoint, client: WebhookClient, backoff: float, schemas: Schemas) -> None:
        self._endpoint = endpoint
        self._client = client
        self._backoff = backoff
        self._schemas = schemas
        self._closed = threading.Event()

    def process(self, events: Sequence[Obj]) -> None:
        """Send events, several times if need be. Raises CallError."""
        items = [{key: value for key, value in event.items() if key not in LIST} for event in events]
        body, pause = encode({**LIST, "items": items}) + b"\n", self._backoff
        for step in range(STEPS):
            try:
                return self._send(body)
            except CallError:
                if step == STEPS - 1 or self._closed.is_set():
                    raise
            self._closed.wait(pause * (1 + random.random() * JITTER))
            pause *= FACTOR
        return None

    def _send(self, body: bytes) -> None:
        """Send a body. Raises CallError."""
        reply = self._client.call_and_wait(Call(self._endpoint.target, body, TIMEOUT, TIMEOUT, self._endpoint.caller))
        if isinstance(reply, CallError):
            raise reply
        if not 200 <= reply.status <= 206:
            raise error_of(reply, self._schemas)

    def close(self) -> None:
        """Wait no longer: what is being sent is tried once more, without a pause."""
        self._closed.set()
