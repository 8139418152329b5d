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
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.apiserver.endpoints.responsewriters.writers import (
    error_response,
    render_document,
    text_response,
    warning_headers,
)
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.endpoints.scope import ServerState
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

    def __init__(
        self, state: ServerState, authenticator: Authenticator, url: str, control: Control | None = None
    ) -> None:
        self.state = state
        self.clock = state.clock
        self.authenticator = authenticator
        self.control = control
        self.token = authenticator.any_token
        render = partial(render_document, schemas=state.schemas)
        self.discovery = documents.Discovery(state.release, url.partition("//")[2], render, list(health_paths()))
        self.openid = OpenID(state.account_tokens, url)
        self.metrics = Metrics()
        self._route = lru_cache(PATHS)(partial(routing.find, state.release))
        self._labels = lru_cache(PATHS)(partial(_labels, state.release))

    async def __call__(self, request: Request) -> Answer:
        started = self.clock.monotonic()
        request.clock = self.clock
        try:
            info = request_info(request.method, request.path, request.query)
        except RequestInfoError as why:
            return _broken(request, f"failed to create RequestInfo: {why}")
        try:
            if request.query and info.verb != "watch" and info.subresource not in LONG_RUNNING:
                check_timeout(request.query.get("timeout"))
            request.user = self.authenticator.user(request.headers, request.warnings)
            answer = await self._resource(request, info) if info.is_resource else await self._page(request)
        except StatusError as error:
            answer = error_response(request, error)
        except ImpersonationError as why:
            answer = _broken(request, str(why))
        if request.warnings:
            answer.headers += warning_headers(request.warnings)
        self._observe(request, info, answer, started)
        return answer

    def _observe(self, request: Request, info: RequestInfo, answer: Answer, started: float) -> None:
        status = answer.status if isinstance(answer, Response) else 200
        self.metrics.observe(self._labels(info, "dryRun" in request.query), status, self.clock.monotonic() - started)

    async def _page(self, request: Request) -> Answer:
        """Everything that is no resource."""
        if request.path[:1] != "/" or request.path[1:2] == "/":
            return documents.not_found()
        if request.path in METRICS:
            return Response(200, slis() if request.path != "/metrics" else self._metrics(), PROMETHEUS)
        answer = health(request) or self.discovery.answer(request) or self.openid.answer(request)
        if answer is None and request.path.startswith("/openapi/"):
            answer = self._openapi.answer(request)
        if answer is None and self.control is not None:
            answer = await self.control.answer(request)
        return answer or self.discovery.missing(request.path)

    @cached_property
    def _openapi(self) -> OpenAPI:
        from understudy.apiserver.endpoints.openapi.v3 import OpenAPI  # only kubectl and generators ask for it

        return OpenAPI(self.state.release)

    def _metrics(self) -> bytes:
        state = self.state
        store, kinds = state.registry.store, [kind for kind in state.release.kinds if not kind.virtual]
        objects = {
            errors.group_resource_text(kind.group, kind.resource): store.count(prefix_of(kind)) for kind in kinds
        }
        watches = {
            (kind.group, kind.versions[0], kind.resource): count
            for kind in kinds
            if (count := store.watching(prefix_of(kind)))
        }
        version = state.release.version_info
        return self.metrics.text(version=version, gates=state.gates.described(), objects=objects, watches=watches)

    async def _resource(self, request: Request, info: RequestInfo) -> Answer:
        route = self._route(request.method, info)
        if route is None:
            return documents.not_found()
        if route.warning:
            request.warnings.append(route.warning)
        return await route.handler(self.state, request, route.scope)


def _labels(release: Release, info: RequestInfo, dry: bool) -> RequestLabels:
    """What a request is counted as; names that clients make up are not kept."""
    verb = info.verb.upper()
    kind = release.resource(info.group, info.version, info.resource)
    if kind is None or (info.subresource and info.subresource not in kind.subresources):
        return verb, "", "", "", "", "", ""
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return verb, info.group, info.version, info.resource, info.subresource, scope, "All" if dry else ""


def _broken(request: Request, why: str) -> Response:
    """What filters ahead of all resources answer."""
    text = f"Internal Server Error: {go_quote(request.path)}: {why}\n"
    return text_response(500, escape(text, quote=False))
