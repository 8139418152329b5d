"""Requests that are passed on to the kubelet of a pod's node: logs, commands and ports.

Kubelets are asked where their nodes say they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from understudy.admission.chain import Operation
from understudy.admission.webhooks import CallError
from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.endpoints.kubelets import (
    STREAM_CLOSE,
    Location,
    location_of,
    log_parameters,
    port_parameters,
    stream_parameters,
    tunneled_protocols,
)
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.endpoints.responsewriters.tables import check_stream
from understudy.apiserver.endpoints.responsewriters.writers import form_of
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.machinery import errors
from understudy.machinery.golang.times import TimeError, canonical_time
from understudy.machinery.options import Query, boolean, integer
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.typeinfo.go_types import List, Scalar
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid

Handler = Callable[[ServerState, Request, RequestScope], Awaitable[Response]]


def admitted(handler: Handler) -> Handler:
    """Return a handler that asks admission before it connects (`ConnectResource`). It raises 400 for dry runs."""

    async def handle(state: ServerState, request: Request, scope: RequestScope) -> Response:
        if "dryRun" in request.query:
            raise errors.bad_request("dryRun is not supported")
        admission = state.chain.of(scope.point(Operation.CONNECT))
        if admission.is_empty:
            await admission.pass_over()
        else:
            ctx = state.context(request, scope)
            attributes = scope.attributes(Operation.CONNECT, ctx, _connect_options(state, request, scope))
            await admission.admit(attributes, ctx)
            await admission.validate(attributes, ctx)
        return await handler(state, request, scope)

    return handle


def _connect_options(state: ServerState, request: Request, scope: RequestScope) -> Obj:
    """Return the parameters of a connection as an object such as PodExecOptions (`getRequestOptions`)."""
    kind, query = scope.body_kind, request.query
    options: Obj = {"kind": kind.kind, "apiVersion": kind.api_version}
    for name, field in state.schemas.kind(*kind).fields.items():
        if name == "path":  # of a proxy
            options[name] = proxied_path(scope.info)
        if name not in query or name in options:
            continue
        match field.type:
            case Scalar(kind="bool"):
                options[name] = boolean(query, name)
            case List(element=Scalar(kind="string")):
                options[name] = query.all(name)
            case List():
                options[name] = [integer(text) for text in query.all(name)]
            case _:
                options[name] = query.get(name)
    return {name: value for name, value in options.items() if value}


def proxied_path(info: RequestInfo) -> str:
    """Return the part of a path behind `proxy`, with the slashes before and after it that the path has."""
    path = "/".join(("", *info.parts[3:]))
    return f"{path}/" if info.path.endswith("/") else path


async def log(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET pods/NAME/log: 204 for a pod without a node (`LogREST.Get`). Raises 400, 404, 406, 422, 500.

    The client must accept a form of objects, though a log is none: text/plain alone is not enough.
    """
    form = form_of(request, scope)
    if field_errors := _log_errors(request.query):
        raise errors.invalid("", "PodLogOptions", scope.name, field_errors, scope.kind.release)
    pod = await _pod(state, scope)
    container = _container(pod, request.query.get("container"))
    kubelet = _kubelet(state, pod["spec"]["nodeName"]) if pod["spec"].get("nodeName") else None
    check_stream(form)
    if kubelet is None:
        return Response(204, b"", "")
    location = kubelet.at(f"/containerLogs/{scope.namespace}/{scope.name}/{container}", log_parameters(request.query))
    insecure = boolean(request.query, "insecureSkipTLSVerifyBackend") or False
    try:
        return await state.kubelets.log(location, request, insecure=insecure)
    except CallError as why:
        raise errors.unknown_error(str(why)) from None


@admitted
async def run(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer pods/NAME/exec and pods/NAME/attach. Raises 400, 403, 404, 500.

    A WebSocket of version 5 is translated for kubelets that speak SPDY only.
    """
    _require_create(state, request, scope)
    pod = await _pod(state, scope)
    container = _container(pod, request.query.get("container"))
    kubelet = _kubelet(state, _node_name(pod))
    path = f"/{scope.subresource}/{scope.namespace}/{scope.name}/{container}"
    kubelet = kubelet.at(path, stream_parameters(request.query))
    translates = _adapts(state, kubelet, features.TRANSLATE_STREAM_CLOSE_WEBSOCKET_REQUESTS)
    if translates and STREAM_CLOSE in _websocket_protocols(request):
        options = _connect_options(state, request, scope)
        return await _answered(state.kubelets.translate(kubelet, request, options))
    return await connected(state, request, kubelet)


@admitted
async def forward(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer pods/NAME/portforward. Raises 400, 403, 404, 500.

    What a WebSocket carries is passed on to kubelets that speak SPDY only.
    """
    _require_create(state, request, scope)
    kubelet = _kubelet(state, _node_name(await _pod(state, scope)))
    path = f"/portForward/{scope.namespace}/{scope.name}"
    kubelet = kubelet.at(path, port_parameters(request.query))
    tunnels = _adapts(state, kubelet, features.PORT_FORWARD_WEBSOCKETS)
    if tunnels and tunneled_protocols(_websocket_protocols(request)):
        return await _answered(state.kubelets.tunnel(kubelet, request))
    return await connected(state, request, kubelet)


async def connected(state: ServerState, request: Request, location: Location) -> Response:
    """Return the answer of a kubelet to a request for another protocol. Raises 400 for any other one, and 500."""
    if not request.is_upgrade:
        raise errors.bad_request("Upgrade request required")
    return await _answered(state.kubelets.connect(location, request))


async def _answered(answering: Awaitable[Response]) -> Response:
    """Return the answer of a kubelet. Raises 500 if it cannot be asked."""
    try:
        return await answering
    except CallError as why:
        raise errors.unknown_error(str(why)) from None


def _adapts(state: ServerState, kubelet: Location, gate: Gate) -> bool:
    """Report whether WebSockets are adapted to a kubelet, which does not declare that it speaks them itself."""
    declares = features.EXTEND_WEB_SOCKETS_TO_KUBELET
    return state.gates[gate] and not (state.gates[declares] and str(declares) in kubelet.features)


def _websocket_protocols(request: Request) -> list[str]:
    """Return the subprotocols that the client of a WebSocket names, none for a request that asks for no WebSocket."""
    asks_for_websocket = request.is_upgrade and request.headers.get("Upgrade", "").lower() == "websocket"
    return spoken_protocols(request.headers) if asks_for_websocket else []


def _require_create(state: ServerState, request: Request, scope: RequestScope) -> None:
    """Raise 403 for a user who may not create what is connected to, 500 if that cannot be found out.

    A WebSocket begins with GET, which is another verb. Upstream: `ensureAuthorizedForVerb`.
    """
    gate = features.AUTHORIZE_POD_WEBSOCKET_UPGRADE_CREATE_PERMISSION
    if request.info.verb == "create" or not state.gates[gate]:
        return
    decision = state.context(request, scope).authorizer.authorize(request.user, replace(request.info, verb="create"))
    if decision.error:
        raise errors.unknown_error(decision.error)
    if not decision.allowed:
        raise errors.forbidden(request.info.group, request.info.resource, scope.name, decision.reason)


async def _pod(state: ServerState, scope: RequestScope) -> Obj:
    """Return the pod of the path. Raises 404."""
    return (await state.registry.get(scope.kind, scope.namespace, scope.name)).object


def _container(pod: Obj, requested: str) -> str:
    """Return the name of the container that a request names, or of the only one. Raises 400."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [container["name"] for container, _ in with_paths(spec, Path())]
    if requested and requested not in names:
        raise errors.bad_request(f"container {requested} is not valid for pod {name}")
    if not requested and len(spec["containers"]) > 1:
        choice = f"choose one of: [{' '.join(names)}]"
        raise errors.bad_request(f"a container name must be specified for pod {name}, {choice}")
    return requested or str(spec["containers"][0]["name"])


def _node_name(pod: Obj) -> str:
    """Return the node of a pod. Raises 400 if it has none."""
    if not pod["spec"].get("nodeName"):
        raise errors.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return str(pod["spec"]["nodeName"])


def _kubelet(state: ServerState, node_name: str) -> Location:
    """Return the place of a node's kubelet. Raises 404 and 500."""
    return location_of(state.registry.lookup("", "nodes", "", node_name), node_name, state.kubelets)


def _log_errors(query: Query) -> Errors:
    """Find errors in the parameters of a log (`ValidatePodLogOptions`). Raises 400 for those that cannot be parsed."""
    tail, limit, seconds = (_integer(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    field_errors: Errors = []
    if tail is not None and tail < 0:
        field_errors.append(invalid(Path("tailLines"), tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        field_errors.append(invalid(Path("limitBytes"), limit, "must be greater than 0"))
    _check_time(query.get("sinceTime"))
    if "sinceTime" in query and seconds is not None:
        field_errors.append(forbidden(Path("[]"), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        field_errors.append(invalid(Path("sinceSeconds"), seconds, "must be greater than 0"))
    if "stream" in query:
        field_errors.append(forbidden(Path("stream"), "may not be specified"))
    return field_errors


def _integer(query: Query, name: str) -> int | None:
    """Return a number of the query, None if it is missing. Raises 400."""
    return integer(query.get(name)) if name in query else None


def _check_time(text: str) -> None:
    """Raise 400 for text that is no RFC 3339 time."""
    try:
        if text:
            canonical_time(text)
    except TimeError as error:
        raise errors.bad_request(str(error)) from None
