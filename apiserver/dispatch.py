"""From a request to its answer: finds the page or the resource that the path names and the function for the verb.

Errors of everything below end here and become a metav1.Status in one place.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING

from understudy.apiserver import deletion, deprecations, discovery, errors, reads, reviews, subresources, writes
from understudy.apiserver.api import Api, Target
from understudy.apiserver.authentication import Authenticator
from understudy.apiserver.call import Call, Reply, Stream
from understudy.apiserver.control import Control
from understudy.apiserver.errors import StatusError
from understudy.apiserver.gotext import go_quote
from understudy.apiserver.health import PROMETHEUS, Metrics, health, slis
from understudy.apiserver.impersonation import ImpersonationError
from understudy.apiserver.kind import Kind
from understudy.apiserver.openid import OpenID
from understudy.apiserver.options import check_timeout
from understudy.apiserver.registry import prefix_of
from understudy.apiserver.rendering import error_reply, render_document, text_reply, warning_headers
from understudy.apiserver.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.apiserver.subresources import PROXY

if TYPE_CHECKING:
    from understudy.apiserver.openapi import OpenAPI

Answer = Reply | Stream
Handler = Callable[[Api, Call, Target], Awaitable[Answer]]

VERBS: dict[str, Handler] = {
    "get": reads.get,
    "list": reads.list_,
    "watch": reads.watch,
    "create": writes.create,
    "update": writes.update,
    "patch": writes.patch,
    "delete": deletion.delete,
    "deletecollection": deletion.delete_collection,
}
# Of subresources that are the object itself, such as its status.
PARTS: dict[str, Handler] = {"get": reads.get, "update": writes.update, "patch": writes.patch}
# Verbs that need no name, and those that work on all namespaces at once.
ON_COLLECTIONS = ("list", "watch", "create", "deletecollection")
EVERYWHERE = ("list", "watch")
METRICS = ("/metrics", "/metrics/slis")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
LONG_RUNNING = ("attach", "exec", "log", "portforward", "proxy")  # subresources; the client decides how long
PROXIED = (*METHODS, "HEAD", "OPTIONS")


class Dispatcher:
    """Answers every request of one server."""

    def __init__(self, api: Api, authenticator: Authenticator, url: str, control: Control | None = None) -> None:
        self.api = api
        self.authenticator = authenticator
        self.control = control
        self.token = authenticator.any_token
        render = partial(render_document, schemas=api.schemas)
        self.discovery = discovery.Discovery(api.release, url.partition("//")[2], render)
        self.openid = OpenID(api.account_tokens, url)
        self.metrics = Metrics()

    async def __call__(self, call: Call) -> Answer:
        started = time.perf_counter()
        call.release = self.api.release.name
        try:
            info = request_info(call.method, call.path, call.query)
        except RequestInfoError as why:
            return _broken(call, f"failed to create RequestInfo: {why}")
        try:
            if call.query and info.verb != "watch" and info.subresource not in LONG_RUNNING:
                check_timeout(call.query.get("timeout"))
            call.user = self.authenticator.user(call.headers)
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
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster" if info.is_resource else ""
        dry = "All" if "dryRun" in call.query else ""
        labels = (info.verb.upper(), info.group, info.version, info.resource, info.subresource, scope, dry)
        kind = self.api.release.resource(info.group, info.version, info.resource)
        if kind is None or (info.subresource and info.subresource not in kind.subresources):
            labels = (info.verb.upper(), "", "", "", "", "", "")  # names that clients make up are not kept
        self.metrics.observe(labels, status, time.perf_counter() - started)

    async def _page(self, call: Call) -> Answer:
        """Everything that is no resource."""
        if call.path[:1] != "/" or call.path[1:2] == "/":
            return discovery.not_found()
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
        from understudy.apiserver.openapi import OpenAPI  # only kubectl and generators ask for it

        return OpenAPI(self.api.release)

    def _metrics(self) -> bytes:
        api = self.api
        store, kinds = api.registry.store, [kind for kind in api.release.kinds if not kind.virtual]
        objects = {errors.qualified(kind.group, kind.resource): store.count(prefix_of(kind)) for kind in kinds}
        watches = {
            (kind.group, kind.versions[0], kind.resource): count
            for kind in kinds
            if (count := store.watching(prefix_of(kind)))
        }
        version = api.release.version
        return self.metrics.text(version=version, gates=api.gates.described(), objects=objects, watches=watches)

    async def _resource(self, call: Call, info: RequestInfo) -> Answer:
        kind = self._kind(info)
        if kind is None:
            if self.api.release.group(info.group) is None or (info.prefix == "api") != (info.group == ""):
                return discovery.not_found()
            raise errors.no_such_resource()
        subresource = info.subresource
        if call.method not in (PROXIED if subresource == PROXY else METHODS):
            raise errors.method_not_allowed()
        name, namespace = info.name, info.namespace if kind.namespaced else ""
        target = Target(info, kind, info.version, namespace, name, subresource)
        handler = self._handler(call, target)
        if text := deprecations.warning(kind.gvk(info.version)):
            call.warnings.append(text)
        return await handler(self.api, call, target)

    def _kind(self, info: RequestInfo) -> Kind | None:
        """The kind of a path, None where there is none at all."""
        kind = self.api.release.resource(info.group, info.version, info.resource)
        if kind is None or (info.namespace and not kind.namespaced and kind.resource != "namespaces"):
            return None
        return kind if _is_route(info, kind) else None

    def _handler(self, call: Call, target: Target) -> Handler:
        """Raises 405."""
        kind, verb = target.kind, target.info.verb
        if target.subresource:
            subresource = kind.subresources[target.subresource]
            if target.subresource == "status" or target.subresource in kind.rules.subresources:
                found = PARTS.get(verb) if verb in subresource.verbs else None
            else:
                found = subresources.handler(kind, subresource, verb)
        elif kind.virtual:
            found = reviews.HANDLERS.get(kind.resource, {}).get(verb)
        else:
            found = VERBS.get(verb) if verb in kind.verbs else None
        named = bool(target.name) or verb in ON_COLLECTIONS
        everywhere = bool(target.namespace) or not kind.namespaced or verb in EVERYWHERE
        if (
            found is None
            or not named
            or not everywhere
            or (verb == "create" and target.name and not target.subresource)
        ):
            raise errors.method_not_allowed()
        return found


def _is_route(info: RequestInfo, kind: Kind) -> bool:
    """Whether the kind has anything at a path, whatever the method."""
    length = len(info.parts)
    if info.verb == "proxy" or (info.watch_path and (kind.virtual or length > 2)):
        return False
    if kind.namespaced and not info.namespace and (kind.virtual or length > 1):
        return False
    if length > 2 and (info.subresource not in kind.subresources or (length > 3 and info.subresource != PROXY)):
        return False
    return length < 2 or not kind.virtual or "get" in kind.verbs


def _broken(call: Call, why: str) -> Reply:
    """What filters ahead of all resources answer."""
    text = f"Internal Server Error: {go_quote(call.path)}: {why}\n"
    return text_reply(500, escape(text, quote=False))
