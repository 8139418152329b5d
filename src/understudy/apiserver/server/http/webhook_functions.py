"""Webhooks that are Python functions of a test: served over TLS by this process, called as any webhook is."""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
from multidict import CIMultiDict

from understudy.apiserver.server.http.tls_listener import TLSListener, listening_socket
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.machinery.types import Obj, dataclass

log = logging.getLogger("understudy")

# Judges an AdmissionRequest; see `Server.webhook` for what it may return.
WebhookFunction = Callable[[Obj], Any]
_GROUP_VERSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """The requests that a function is asked about, and how it is asked: the fields of a webhook's configuration.

    resources   such as "pods", "pods/status", "deployments.apps" or "*.example.com": RESOURCE.GROUP, the core group's
                without a group; in any version
    operations  "CREATE", "UPDATE", "DELETE", "CONNECT" or "*"
    fields      further fields of the webhook: {"namespaceSelector": …, "matchConditions": …}
    """

    resources: Sequence[str]
    operations: Sequence[str]
    mutating: bool
    failure_policy: str
    timeout_seconds: int
    fields: Obj


class FunctionWebhooks:
    """Serves functions on a port of the loopback interface, each under the name of its configuration."""

    def __init__(self) -> None:
        self._functions: dict[str, WebhookFunction] = {}
        self._listener: TLSListener | None = None
        self._http = HTTPServer(self._answer)
        self._ca_bundle = ""
        self._port = 0

    async def configuration(self, name: str, function: WebhookFunction, options: WebhookOptions) -> Obj:
        """Serve a function, in the running event loop, and return the configuration that makes the API server ask it.

        Raises ValueError for a name that another function has.
        """
        if self._functions.setdefault(name, function) is not function:
            raise ValueError(f"there is a webhook called {name!r} already: give one of them another name")
        await self._start()
        kind = "MutatingWebhookConfiguration" if options.mutating else "ValidatingWebhookConfiguration"
        webhook: Obj = {
            "name": f"{name}.understudy.test",
            "clientConfig": {"url": f"https://127.0.0.1:{self._port}/{name}", "caBundle": self._ca_bundle},
            "rules": [_rule(resource, options.operations) for resource in options.resources],
            "failurePolicy": options.failure_policy,
            "timeoutSeconds": options.timeout_seconds,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **options.fields,
        }
        return {"apiVersion": _GROUP_VERSION, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]}

    async def _start(self) -> None:
        """Listen, unless that was done before."""
        if self._listener is not None:
            return
        import trustme  # takes a while

        authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        sock = listening_socket("127.0.0.1", 0)
        self._port = sock.getsockname()[1]
        self._listener = TLSListener(sock, self._http.connect, lambda _: context)

    def snapshot(self) -> Mapping[str, WebhookFunction]:
        """Return the functions that are served, for `restore`."""
        return dict(self._functions)

    def restore(self, functions: Mapping[str, WebhookFunction]) -> None:
        """Serve these functions; nothing asks others any more."""
        self._functions = dict(functions)

    async def stop(self) -> None:
        """Stop listening."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            await self._http.shutdown(0)

    async def _answer(self, exchange: Exchange) -> None:
        """Answer a review with what the function says. An error in the function is logged, and answered with 500."""
        name = exchange.target.partition("?")[0].removeprefix("/")
        function = self._functions.get(name)
        if function is None:
            return await _send(exchange, 404, b"no such webhook")
        review = orjson.loads(await exchange.body.read_all())
        try:
            response = _response(await _call(function, review["request"]))
        except Exception as error:
            log.exception("webhook %s failed", name)
            return await _send(exchange, 500, f"{type(error).__name__}: {error}".encode())
        response["uid"] = review["request"]["uid"]
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
        return await _send(exchange, 200, orjson.dumps(answer), "application/json")


async def _send(exchange: Exchange, status: int, content: bytes, content_type: str = "text/plain") -> None:
    await exchange.send(status, CIMultiDict({"Content-Type": content_type}), (content,))


async def _call(function: WebhookFunction, request: Obj) -> Any:
    """Call a function in a thread, since it may block and may ask the API server itself."""

    def call() -> Any:
        result = function(request)
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result

    return await asyncio.to_thread(call)


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _rule(resource: str, operations: Sequence[str]) -> Obj:
    name, _, group = resource.partition(".")
    return {"apiGroups": [group], "apiVersions": ["*"], "resources": [name], "operations": list(operations)}


def _response(judgement: Any) -> Obj:
    """Return the AdmissionResponse for what a function returned. Raises TypeError for anything unknown."""
    if judgement is None or isinstance(judgement, bool):
        return {"allowed": judgement is not False}
    if isinstance(judgement, str):
        return {"allowed": False, "status": {"message": judgement, "reason": "Forbidden", "code": 403}}
    if isinstance(judgement, list):
        return {"allowed": True, **_patch(judgement)}
    if isinstance(judgement, dict):
        patch = judgement.get("patch")
        return {"allowed": True, **judgement, **(_patch(patch) if isinstance(patch, list) else {})}
    raise TypeError(f"a webhook returns None, a bool, a text, a JSON patch or an AdmissionResponse, not {judgement!r}")


def _patch(operations: list[Obj]) -> Obj:
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}
