"""From a request to its answer: pages are answered here, resources by what `routing` finds for them.

Errors of everything below end here and become a metav1.Status in one place.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from html import escape
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.impersonation import ImpersonationError
from understudy.apiserver.endpoints import routing
from understudy.apiserver.endpoints.discovery import documents
from understudy.apiserver.endpoints.discovery.openid_metadata import OpenID
from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.apiserver.endpoints.responsewriters.writers import (
    error_reply,
    render_document,
    text_reply,
    warning_headers,
)
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.endpoints.scope import Api
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.pages.health import PROMETHEUS, Metrics, RequestLabels, health, slis
from understudy.apiserver.server.pages.health import paths as health_paths
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import check_timeout

if TYPE_CHECKING:
    from understudy.apiserver.endpoints.openapi.v3 import OpenAPI

PATHS = 4096  # whose routes are kept
METRICS = ("/metrics", "/metrics/slis")
LONG_RUNNING = ("attach", "exec", "log", "portforward", "proxy")  # subresources; the client decides how long


class Dispatcher:
    """Answers every request of one server."""

    def __init__(self, api: Api, authenticator: Authenticator, url: str, control: Control | None = None) -> None:
        self.api = api
        self.clock = api.clock
        self.authenticator = authenticator
        self.control = control
        self.token = authenticator.any_token
        render = partial(render_document, schemas=api.schemas)
        self.discovery = documents.Discovery(api.release, url.partition("//")[2], render, list(health_paths()))
        self.openid = OpenID(api.account_tokens, url)
        self.metrics = Metrics()
        self._route = lru_cache(PATHS)(partial(routing.find, api.release))
        self._labels = lru_cache(PATHS)(partial(_labels, api.release))

    async def __call__(self, call: Call) -> Answer:
        started = self.clock.monotonic()
        call.clock = self.clock
        try:
            info = request_info(call.method, call.path, call.query)
        except RequestInfoError as why:
            return _broken(call, f"failed to create RequestInfo: {why}")
        try:
            if call.query and info.verb != "watch" and info.subresource not in LONG_RUNNING:
                check_timeout(call.query.get("timeout"))
            call.user = self.authenticator.user(call.headers, call.warnings)
            answer = await self._resource(call, info) if info.is_resource else await self._page(call)
        except StatusError as error:
            answer = error_reply(call, error)
        except ImpersonationError as why:
            answer = _broken(call, str(why))
        if call.warnings:
            answer.headers += warning_headers(call.warnings)
        self._observe(call, info, answer, started)
        return answer

    def _observe(self, call: Call, info: RequestInfo, answer: Answer, started: float) -> None:
        status = answer.status if isinstance(answer, Reply) else 200
        self.metrics.observe(self._labels(info, "dryRun" in call.query), status, self.clock.monotonic() - started)

    async def _page(self, call: Call) -> Answer:
        """Everything that is no resource."""
        if call.path[:1] != "/" or call.path[1:2] == "/":
            return documents.not_found()
        if call.path in METRICS:
            return Reply(200, slis() if call.path != "/metrics" else self._metrics(), PROMETHEUS)
        answer = health(call) or self.discovery.answer(call) or self.openid.answer(call)
        if answer is None and call.path.startswith("/openapi/"):
            answer = self._openapi.answer(call)
        if answer is None and self.control is not None:
            answer = await self.control.answer(call)
        return answer or self.discovery.missing(call.path)

    @cached_property
    def _openapi(self) -> OpenAPI:
        from understudy.apiserver.endpoints.openapi.v3 import OpenAPI  # only kubectl and generators ask for it

        return OpenAPI(self.api.release)

    def _metrics(self) -> bytes:
        api = self.api
        store, kinds = api.registry.store, [kind for kind in api.release.kinds if not kind.virtual]
        objects = {
            errors.group_resource_text(kind.group, kind.resource): store.count(prefix_of(kind)) for kind in kinds
        }
        watches = {
            (kind.group, kind.versions[0], kind.resource): count
            for kind in kinds
            if (count := store.watching(prefix_of(kind)))
        }
        version = api.release.version_info
        return self.metrics.text(version=version, gates=api.gates.described(), objects=objects, watches=watches)

    async def _resource(self, call: Call, info: RequestInfo) -> Answer:
        route = self._route(call.method, info)
        if route is None:
            return documents.not_found()
        if route.warning:
            call.warnings.append(route.warning)
        return await route.handler(self.api, call, route.target)


def _labels(release: Release, info: RequestInfo, dry: bool) -> RequestLabels:
    """What a request is counted as; names that clients make up are not kept."""
    verb = info.verb.upper()
    kind = release.resource(info.group, info.version, info.resource)
    if kind is None or (info.subresource and info.subresource not in kind.subresources):
        return verb, "", "", "", "", "", ""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return verb, info.group, info.version, info.resource, info.subresource, scope, "All" if dry else ""


def _broken(call: Call, why: str) -> Reply:
    """What filters ahead of all resources answer."""
    text = f"Internal Server Error: {go_quote(call.path)}: {why}\n"
    return text_reply(500, escape(text, quote=False))
