"""Requests that are proxied to pods, services and nodes. Upstream: `ProxyREST` of each of the three.

Kubelets are asked over TLS as for logs. Of endpoints of a service the real server takes any, this one the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.kubelets import Location, location_of
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources.connect import admitted, connected, proxied_path
from understudy.kinds.core.endpoints.slices import is_ready, service_of
from understudy.machinery import errors
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.urls import clean_path
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj

_PORTS = {"http": "80", "https": "443"}


@admitted
async def proxy(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer any method on the proxy path of a pod, service or node (NAME, NAME:PORT or SCHEME:NAME:PORT).

    Raises 400, 404, 500, 503.
    """
    location = await _location(state, scope)
    path = proxied_path(scope.info)
    path = clean_path(path) if path else ""
    if request.is_upgrade:
        return await connected(state, request, location._replace(path=path or "/"))
    if not path and request.method in ("GET", "HEAD"):
        query = f"?{request.query.text}" if request.query.text else ""
        return Response(301, b"", "", headers=[("Location", f"{scope.info.path}/{query}")])
    try:
        prefix = scope.info.path.removesuffix(path)
        location = location._replace(path=path or "/", query=request.query.text)
        return await state.kubelets.forward(location, request, prefix)
    except CallError as why:
        raise _unavailable(str(why)) from None


async def _location(state: ServerState, scope: RequestScope) -> Location:
    """Return the root of what a request is proxied to (`ResourceLocation`). Raises 400, 404, 500, 503."""
    scheme, name, port = _scheme_name_port(scope.name)
    if scheme not in ("", "http", "https") or not name:
        raise errors.bad_request(f"invalid {scope.kind.name.lower()} request {go_quote(scope.name)}")
    return await _LOCATIONS[scope.kind.name](state, scope, scheme or "http", name, port)


def _scheme_name_port(text: str) -> tuple[str, str, str]:
    """Return the parts of the name in a proxy path, without a name if there are too many (`SplitSchemeNamePort`)."""
    match text.split(":"):
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [scheme, name, port]:
            return scheme, name, port
    return "", "", ""


def _at(scheme: str, host: str, port: str) -> Location:
    """Return a place that is no kubelet. Raises 503 for a port that is none."""
    port = port or _PORTS[scheme]
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise _unavailable(f"error trying to reach service: dial tcp: address {port}: invalid port")
    return Location(host, int(port), scheme=scheme, is_kubelet=False)


async def _of_pod(state: ServerState, scope: RequestScope, scheme: str, name: str, port: str) -> Location:
    """Return the place of a pod, by default at the first port that it declares. Raises 400 and 404."""
    pod = (await state.registry.get(scope.kind, scope.namespace, name)).object
    declared = (item["containerPort"] for container in pod["spec"]["containers"] for item in container.get("ports", ()))
    ips = (pod.get("status") or {}).get("podIPs") or [{}]
    address = _global_unicast(str(ips[0].get("ip", "")))
    return _at(scheme, address, port or str(next(declared, "")))


async def _of_node(state: ServerState, scope: RequestScope, scheme: str, name: str, port: str) -> Location:
    """Return the place of a node, by default that of its kubelet. Raises 400, 404, 500."""
    node = (await state.registry.get(scope.kind, "", name)).object
    kubelet = location_of(node, name, state.kubelets)
    if parse_ip(kubelet.host) is None:
        raise errors.bad_request(f"lookup {kubelet.host}: no such host")
    address = _global_unicast(kubelet.host)
    return kubelet if port in ("", str(kubelet.port)) else _at(scheme, address, port)


def _global_unicast(address: str) -> str:
    """Return an address of one host in some network. Raises 400 for others (`IsGlobalUnicast` in Go)."""
    ip = parse_ip(address)
    if ip is None or ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local:
        raise errors.bad_request("address not allowed")
    return address


async def _of_service(state: ServerState, scope: RequestScope, scheme: str, name: str, port: str) -> Location:
    """Return the place of a service: an endpoint that is a pod's, or where the service is reached otherwise.

    Up to 1.36 the real server looks at the Endpoints, then at the EndpointSlices. Raises 404 and 503.
    """
    if (mapped := state.kubelets.service_addresses.get(f"{scope.namespace}/{name}")) is not None:
        return Location(*mapped, scheme=scheme, is_kubelet=False)
    if port.isdigit():
        service = (await state.registry.get(scope.kind, scope.namespace, name)).object
        ports = {each["port"]: each.get("name", "") for each in service["spec"].get("ports") or ()}
        if int(port) not in ports:
            raise _unavailable(f"no service port {port} found for service {go_quote(name)}")
        port = ports[int(port)]
    if scope.kind.release >= V1_37:
        endpoints, missing = _of_slices(state, scope.namespace, name), name
    else:
        stored = state.registry.lookup("", "endpoints", scope.namespace, name)
        if stored is None:
            raise errors.not_found("", "services", name)
        subsets = stored.get("subsets") or ()
        endpoints, missing = _of_subsets(subsets), scope.name if subsets else name
    for address, port_name, number, target in endpoints:
        if port_name == port and _is_pod(state, scope.namespace, address, target):
            return Location(address, number, scheme=scheme, is_kubelet=False)
    raise _unavailable(f"no endpoints available for service {go_quote(missing)}")


# Address, name and number of a port, and a reference to what listens there.
_Endpoint = tuple[str, str, int, Obj]


def _of_slices(state: ServerState, namespace: str, name: str) -> Iterator[_Endpoint]:
    """Yield the ready endpoints of a service by its EndpointSlices, those of IPv4 first."""
    slices = state.registry.listing("discovery.k8s.io", "endpointslices", namespace)
    own = [item for item in slices if service_of(item) == name]
    for item in sorted(own, key=lambda item: item["addressType"] != "IPv4"):
        for port in item.get("ports") or ():
            for endpoint in item.get("endpoints") or ():
                if is_ready(endpoint) and port.get("port"):
                    target = endpoint.get("targetRef") or {}
                    yield endpoint["addresses"][0], port.get("name", ""), port["port"], target


def _of_subsets(subsets: Iterable[Obj]) -> Iterator[_Endpoint]:
    """Yield the ready endpoints of subsets of Endpoints."""
    for subset in subsets:
        for port in subset.get("ports") or ():
            for item in subset.get("addresses") or ():
                yield item["ip"], port.get("name", ""), port["port"], item.get("targetRef") or {}


def _is_pod(state: ServerState, namespace: str, address: str, target: Obj) -> bool:
    """Report whether a reference is to a pod of a namespace that has an address (`isValidAddress`)."""
    if target.get("namespace") != namespace:
        return False
    pod = state.registry.lookup("", "pods", namespace, target.get("name", "")) or {}
    return address in [item["ip"] for item in (pod.get("status") or {}).get("podIPs") or ()]


def _unavailable(text: str) -> errors.StatusError:
    return errors.StatusError(503, "ServiceUnavailable", text)


_Find = Callable[[ServerState, RequestScope, str, str, str], Awaitable[Location]]
_LOCATIONS: dict[str, _Find] = {"Pod": _of_pod, "Node": _of_node, "Service": _of_service}
