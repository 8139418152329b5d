"""The story of pods, services and nodes that requests are proxied to, for `compare proxies`."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.common.comparing import Obj
from scripts.compare.cases.aggregated_server import AggregatedServer
from scripts.compare.cases.aggregation_requests import UPGRADE
from scripts.compare.cases.aggregation_steps import Ask, Serve, Write

NAMESPACE = "/api/v1/namespaces/proxied"
PODS, SERVICES, NODES = f"{NAMESPACE}/pods", f"{NAMESPACE}/services", "/api/v1/nodes"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/proxied/endpointslices"
ENDPOINTS = f"{NAMESPACE}/endpoints"
CLOSED = 1  # a port on which nothing listens


def steps(host: str, plain: AggregatedServer, kubelet: AggregatedServer) -> Iterator[Ask | Write | Serve]:
    """Yield the steps, with a plain server and a kubelet at an address that the real server dials."""
    yield from objects(host, plain.port, kubelet.port)
    named = ("p", f"http:p:{plain.port}", f"https:p:{kubelet.port}", f"p:{CLOSED}", f"https:p:{CLOSED}")
    odd = ("none", "ftp:p:80", "a:b:c:d", f"https:p:{plain.port}", "nowhere", "bare")
    yield from everywhere(PODS, *named, *odd)
    ports = ("s:web", "s:80", "https:s:tls", "https:s:443", "s", "s:none", "s:81")
    yield from everywhere(SERVICES, *ports, "none", "none:80", "empty:web", "strange:web", "unready:web")
    yield from everywhere(NODES, "n", f"n:{kubelet.port}", f"n:{plain.port}", f"https:n:{kubelet.port}", f"n:{CLOSED}")
    yield from requests()
    yield Write("DELETE", f"{NODES}/n")
    for name in ("p", "nowhere", "bare"):
        yield Write("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
    for name in ("s", "strange", "unready"):
        for path in (SLICES, ENDPOINTS, SERVICES):
            yield Write("DELETE", f"{path}/{name}")


def objects(host: str, plain: int, tls: int) -> Iterator[Write]:
    """Yield the requests that create a node, pods, and services with endpoints."""
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "proxied"}})
    yield Write("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    yield Write("POST", NODES, {"metadata": {"name": "n"}})
    endpoint = {"addresses": [{"type": "InternalIP", "address": host}]}
    yield Write(
        "PATCH", f"{NODES}/n/status", {"status": endpoint | {"daemonEndpoints": {"kubeletEndpoint": {"Port": tls}}}}
    )
    for name, ports, address in (("p", [plain], host), ("nowhere", [plain], "127.0.0.1"), ("bare", [CLOSED], host)):
        containers = [
            {"name": "first", "image": "i"},
            {"name": "main", "image": "i", "ports": [{"containerPort": port} for port in ports]},
        ]
        spec = {"containers": containers, "automountServiceAccountToken": False}
        yield Write("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        yield Write("PATCH", f"{PODS}/{name}/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})
    reference = {"kind": "Pod", "namespace": "proxied", "name": "p"}
    listening = [{"name": "web", "port": plain}, {"name": "tls", "port": tls}]
    for name, ready, target in (
        ("s", True, reference),
        ("strange", True, {**reference, "name": "nowhere"}),
        ("unready", False, reference),
    ):
        yield Write("POST", SERVICES, service(name))
        yield Write("POST", ENDPOINTS, endpoints(name, host, listening, target, is_ready=ready))
        yield Write("POST", SLICES, endpoint_slice(name, host, listening, target, is_ready=ready))
    yield Write("POST", SERVICES, service("empty"))
    yield Write("POST", ENDPOINTS, {"metadata": {"name": "empty"}})


def service(name: str) -> Obj:
    """Return a service with a plain port and one for TLS."""
    ports = [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]
    return {"metadata": {"name": name}, "spec": {"ports": ports}}


def endpoints(name: str, host: str, ports: list[Obj], target: Obj, *, is_ready: bool) -> Obj:
    """Return the Endpoints of a service."""
    at = "addresses" if is_ready else "notReadyAddresses"
    return {"metadata": {"name": name}, "subsets": [{at: [{"ip": host, "targetRef": target}], "ports": ports}]}


def endpoint_slice(name: str, host: str, ports: list[Obj], target: Obj, *, is_ready: bool) -> Obj:
    """Return the EndpointSlice of a service."""
    metadata = {"name": name, "labels": {"kubernetes.io/service-name": name}}
    endpoint = {"addresses": [host], "targetRef": target, "conditions": {"ready": is_ready}}
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports}


def everywhere(path: str, *names: str) -> Iterator[Ask]:
    """Yield requests to the names of objects: with a path, and for another protocol."""
    for name in names:
        yield Ask(f"{path}/{name}/proxy/a/other?x=1&y=%20")
        yield Ask(f"{path}/{name}/proxy/echo?x=1", headers=UPGRADE)


def requests() -> Iterator[Ask | Serve]:
    """Yield requests of all kinds to a pod."""
    pod = f"{PODS}/p/proxy"
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        yield Ask(f"{pod}?b=2&a=1", method)
    yield Ask(f"{pod}/?b=2&a=1&c&d=%zz;e")
    yield Ask(f"{pod}?x", headers=UPGRADE)
    for path in ("a%2Fb%20c", "a//b/", "a/../b", "~a;b,c:d@e(f)'!*$&+=", "%C3%A4"):
        yield Ask(f"{pod}/{path}")
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"):
        body = {"a": 1} if method[0] == "P" else None
        yield Ask(f"{pod}/other?x=1", method, {"Content-Type": "application/json"}, body)
    told = {"X-Remote-User": "evil", "X-Forwarded-For": "1.1.1.1", "X-Forwarded-Host": "h", "X-Forwarded-Uri": "/u"}
    yield Ask(f"{pod}/other", headers=told | {"Te": "trailers", "X-Own": "1", "Accept-Encoding": "br", "Via": "v"})
    yield Ask(f"{pod}/other", headers={"Impersonate-User": "admin", "Impersonate-Group": "system:masters"})
    yield Ask(f"{pod}/echo", "POST", headers=UPGRADE | told)
    yield Ask(f"{pod}/other?watch=1")
    for name in ("moved", "teapot", "cut", "refuse", "status-500"):
        yield Ask(f"{pod}/{name}")
        yield Ask(f"{pod}/{name}", headers=UPGRADE)
    yield Ask(f"{pod}/other?dryRun=All")
    page = '<!DOCTYPE html><A HREF="/a?x=1&amp;y" class=k>&lt;</A><img src="b"/><script>a<b</script><a href=//h/x>'
    yield Serve("/page", page, "text/html; charset=utf-8")
    yield Ask(f"{pod}/page")
