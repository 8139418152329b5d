"""The handlers of subresources that have their own body, or none, and of kinds of which nothing is stored.

Subresources that are the object itself (status, finalize, ephemeralcontainers, approval) are written like the object,
with another strategy: see `Behavior.subresources`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.apiserver.endpoints.handlers import reviews
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources import binding, connect, proxy, token
from understudy.apiserver.endpoints.subresources.eviction import evict
from understudy.apiserver.endpoints.subresources.scale import get_scale, patch_scale, update_scale
from understudy.kinds.declarations.kind import Kind, Subresource
from understudy.machinery import errors

Handler = Callable[[ServerState, Request, RequestScope], Awaitable[Response]]

CONNECT = ("get", "create")
PROXY = "proxy"

HANDLERS: dict[tuple[str, str], dict[str, Handler]] = {
    ("pods", "binding"): {"create": binding.of_pod},
    ("pods", "eviction"): {"create": evict},
    ("pods", "log"): {"get": connect.log},
    ("serviceaccounts", "token"): {"create": token.create},
    ("pods", "portforward"): dict.fromkeys(CONNECT, connect.forward),
    **{("pods", name): dict.fromkeys(CONNECT, connect.run) for name in ("attach", "exec")},
}
# Kinds of which nothing is stored. A binding is that of a pod, too: the pod's name is in its body.
VIRTUAL: dict[str, dict[str, Handler]] = {**reviews.HANDLERS, "bindings": {"create": binding.create}}
SCALE: dict[str, Handler] = {"get": get_scale, "update": update_scale, "patch": patch_scale}


def handler(kind: Kind, subresource: Subresource, verb: str) -> Handler | None:
    """Return the handler of a verb of a subresource, None if the verb is not allowed."""
    if subresource.name == PROXY:
        return proxy.proxy
    if verb not in subresource.verbs:
        return None
    if subresource.name == "scale":
        return SCALE[verb]
    return HANDLERS.get((kind.resource, subresource.name), {}).get(verb, _unsupported)


async def _unsupported(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Raise 501."""
    path = f"{scope.kind.resource}/{scope.subresource}"
    raise errors.StatusError(501, "NotImplemented", f"understudy does not support {path}", {})
