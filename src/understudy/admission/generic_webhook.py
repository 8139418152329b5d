"""Reviews that are sent to a server outside, several times if need be. Upstream: k8s.io/apiserver/pkg/util/webhook."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter

from understudy.admission.webhooks import (
    Call,
    Caller,
    CallError,
    Registered,
    Target,
    WebhookClient,
    of_any_kind,
    read_review,
)
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj

TIMEOUT = 30.0  # seconds of a call, unless a configuration says otherwise
DELAY, STEPS, FACTOR, JITTER = 0.5, 5, 1.5, 0.2  # of `DefaultAuthWebhookRetryBackoff`


Observe = Callable[[str, float], None]


def unobserved(result: str, seconds: float) -> None:
    """Take no notice of a try."""


class Endpoint(NamedTuple):
    """The server that is asked, and the credentials that it is shown."""

    target: Target
    caller: Caller


class GenericWebhook:
    """Sends reviews of one kind to a server, and reads its answers.

    timeout     seconds of one call
    delay       seconds until the second one; None for those of `DefaultAuthWebhookRetryBackoff`
    registered  the scheme of the client
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: WebhookClient,
        kind: GroupVersionKind,
        schemas: Schemas,
        timeout: float = TIMEOUT,
        delay: float | None = None,
        registered: Registered = of_any_kind,
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._kind = kind
        self._schemas = schemas
        self._timeout = timeout
        self._delay = delay
        self._registered = registered

    async def create(self, parts: Obj, observe: Observe = unobserved) -> Obj:
        """Return the review that is answered to one with a spec and a status. Raises CallError, after all tries.

        observe  is told the result of each try: "success", "error", "timeout" or "canceled"; and its seconds
        """
        group, version, kind = self._kind
        named = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": self._schemas.uncreated_metadata}
        body, pause = encode({**named, **parts}) + b"\n", DELAY if self._delay is None else self._delay
        for step in range(STEPS):
            try:
                return await self._observed(body, observe)
            except CallError as error:
                if step == STEPS - 1 or not _is_passing(error):
                    raise
            await self._client.pause(pause * (1 + random.random() * JITTER))
            pause *= FACTOR
        raise AssertionError("the last try returns or raises")

    async def _observed(self, body: bytes, observe: Observe) -> Obj:
        """Return the review that is answered to a body which is sent once. Raises CallError."""
        result, started = "canceled", perf_counter()  # unless it ends
        try:
            review = await self._post(body)
        except CallError as error:
            result = result_of(error)
            raise
        else:
            result = "success"
            return review
        finally:
            observe(result, perf_counter() - started)

    async def _post(self, body: bytes) -> Obj:
        """Send a body once, and return the review that is answered. Raises CallError."""
        call = Call(self._endpoint.target, body, self._timeout, self._timeout, self._endpoint.caller)
        [answered] = await self._client.call([call])
        if isinstance(answered.result, CallError):
            raise answered.result
        return read_review(answered.result, self._kind, self._schemas, self._registered)


def result_of(error: CallError) -> str:
    """Return the result of a try that has failed, as metrics have it."""
    return "timeout" if error.code == 504 or "context deadline exceeded" in str(error) else "error"


def _is_passing(error: CallError) -> bool:
    """Report whether what went wrong may be over soon. Upstream: `DefaultShouldRetry`."""
    if error.code is None:
        return "connection reset by peer" in str(error)
    return error.code == 429 or (error.code >= 500 and error.code != 503)
