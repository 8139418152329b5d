"""Routing: the resource that a path names, and the handler of the verb.

Stored objects play no part here, so that a route can be cached by method and path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from understudy.apiserver.endpoints.handlers import create, delete, get, patch, update
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.endpoints.responsewriters import deprecation
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources import table
from understudy.apiserver.endpoints.subresources.table import PROXY
from understudy.apiserver.extensions.conversion import cannot_convert
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving.monitoring import Monitored, monitored
from understudy.apiserver.serving.release import Release
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import NamedTuple

if TYPE_CHECKING:
    from understudy.apiserver.extensions.kinds import Defined

Answer = Response | WatchResponse
Handler = Callable[[ServerState, Request, RequestScope], Awaitable[Answer]]

VERBS: dict[str, Handler] = {
    "get": get.get,
    "list": get.list_,
    "watch": get.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
# The handlers of subresources that show the object itself, such as its status.
PARTS: dict[str, Handler] = {"get": get.get, "update": update.update, "patch": patch.patch}
# Verbs that need no name, and those that work on all namespaces at once.
ON_COLLECTIONS = ("list", "watch", "create", "deletecollection")
EVERYWHERE = ("list", "watch")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PROXIED = (*METHODS, "HEAD", "OPTIONS")


class Route(NamedTuple):
    """A handler and its scope.

    warning    the text of a warning that every answer carries, "" for none
    monitored  what its requests are counted by
    """

    scope: RequestScope
    handler: Handler
    warning: str
    monitored: Monitored


def find(serving: Serving, method: str, info: RequestInfo) -> Route | None:
    """Return the route of a resource's path, None if the group does not exist. Raises 404 and 405."""
    defined = serving.custom(info.group, info.resource) if info.prefix == "apis" else None
    if defined is not None and serving.release.group(info.group) is None:
        return _custom(defined, method, info)
    release = serving.release
    kind = _kind(release, info)
    if kind is None:
        if release.group(info.group) is None or (info.prefix == "api") != (info.group == ""):
            return None
        raise errors.no_such_resource()
    if method not in (PROXIED if info.subresource == PROXY else METHODS):
        raise errors.method_not_allowed()
    namespace = info.namespace if kind.namespaced else ""
    scope = RequestScope(info, kind, info.version, namespace, info.name, info.subresource)
    warning = deprecation.warning(kind.gvk(info.version), release)
    counted = monitored(info, kind, method, is_one=len(info.parts) > 1, is_deprecated=info.watch_path)
    return Route(scope, _handler(scope), warning, counted)


def _custom(defined: Defined, method: str, info: RequestInfo) -> Route | None:
    """Return the route of a custom resource's path, None if there is none. Raises 404, 405, 500.

    Upstream has a separate handler for all of them instead of a router (`crdHandler.ServeHTTP`).
    """
    kind = defined.kinds.get(info.version)
    if kind is None or not defined.definition.is_served:
        return None
    if bool(info.namespace) != kind.namespaced and (info.namespace or info.verb not in EVERYWHERE):
        return None
    if cannot_convert(defined.definition, kind.release):
        raise errors.internal_error("error resolving resource")
    if info.subresource and info.subresource not in kind.subresources:
        raise errors.not_found(kind.group, kind.resource, info.name)
    scope = RequestScope(info, kind, info.version, info.namespace, info.name, info.subresource)
    handlers: Mapping[str, Handler] = VERBS
    if info.subresource:
        handlers = table.SCALE if info.subresource == "scale" else PARTS
    handler = handlers.get(info.verb)
    if handler is None:
        raise errors.method_not_supported(kind.group, kind.resource, info.verb)
    if defined.definition.is_terminating and info.verb == "create" and kind.release < V1_34:
        message = "create not allowed while custom resource definition is terminating"
        raise errors.method_not_supported(kind.group, kind.resource, info.verb, message)
    counted = monitored(info, kind, method, is_one=bool(info.name), is_deprecated=info.watch_path)
    return Route(scope, handler, defined.definition.deprecation_warning(info.version), counted)


def _kind(release: Release, info: RequestInfo) -> Kind | None:
    """Return the kind that a path names, None if there is none."""
    kind = release.resource(info.group, info.version, info.resource)
    if kind is None or (info.namespace and not kind.namespaced and kind.resource != "namespaces"):
        return None
    return kind if _is_route(info, kind) else None


def _is_route(info: RequestInfo, kind: Kind) -> bool:
    """Report whether the kind has a route at a path, for any method."""
    length = len(info.parts)
    if info.verb == "proxy" or (info.watch_path and (kind.virtual or length > 2)):
        return False
    if kind.namespaced and not info.namespace and (kind.virtual or length > 1):
        return False
    if length > 2 and (info.subresource not in kind.subresources or (length > 3 and info.subresource != PROXY)):
        return False
    return length < 2 or not kind.virtual or "get" in kind.verbs


def _handler(scope: RequestScope) -> Handler:
    """Return the handler for the verb of a scope. Raises 405."""
    kind, verb = scope.kind, scope.info.verb
    if scope.subresource:
        subresource = kind.subresources[scope.subresource]
        if scope.subresource == "status" or scope.subresource in kind.behavior.subresources:
            handler = PARTS.get(verb) if verb in subresource.verbs else None
        else:
            handler = table.handler(kind, subresource, verb)
    elif kind.virtual:
        handler = table.VIRTUAL.get(kind.resource, {}).get(verb)
    else:
        handler = VERBS.get(verb) if verb in kind.verbs else None
    named = bool(scope.name) or verb in ON_COLLECTIONS
    everywhere = bool(scope.namespace) or not kind.namespaced or verb in EVERYWHERE
    if handler is None or not named or not everywhere or (verb == "create" and scope.name and not scope.subresource):
        raise errors.method_not_allowed()
    return handler
