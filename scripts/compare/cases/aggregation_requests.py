"""The story of an aggregated API server that requests are passed on to, for `compare aggregation`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.aggregated_server import GROUP, PATH, VERSION
from scripts.compare.cases.aggregation_steps import API_SERVICES, SERVICES, Ask, Reason, Step, Write

NAME = f"{VERSION}.{GROUP}"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices"
ENDPOINTS = "/api/v1/namespaces/wardle/endpoints"
FLUNDERS = f"{PATH}/namespaces/default/flunders"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "echo"}


def patch(**spec: Any) -> Write:
    """Return a change of the APIService."""
    return Write("PATCH", f"{API_SERVICES}/{NAME}", {"spec": spec})


def steps(port: int, bundle: str, release: str) -> Iterator[Step]:
    """Yield the steps, with an aggregated server at a port; a release calls some things otherwise."""
    service = {"namespace": "wardle", "name": "api", "port": port}
    spec: Obj = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 1000, "versionPriority": 15}
    spec |= {"caBundle": bundle, "service": service}
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "wardle"}})
    yield Write("POST", API_SERVICES, {"metadata": {"name": NAME}, "spec": spec})
    yield Reason("ServiceNotFound")
    yield Ask(PATH, until=503)
    yield Ask(FLUNDERS, "POST", body={}, alice=True)
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": {"ports": [{"name": "x", "port": 443}]}})
    yield Reason("ServicePortError")
    yield Write("PATCH", f"{SERVICES}/api", {"spec": {"ports": [{"name": "x", "port": port}]}})
    yield Reason("EndpointsNotFound")
    ports, place = [{"name": "y", "port": 9}], {"name": "api", "labels": {"kubernetes.io/service-name": "api"}}
    addresses = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]}
    yield Write("POST", SLICES, {"metadata": place, "ports": ports} | addresses)
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}]
    yield Write("POST", ENDPOINTS, {"metadata": {"name": "api"}, "subsets": subsets})
    yield Reason("MissingEndpoints")
    yield Write("DELETE", f"{SERVICES}/api")
    yield Reason("ServiceNotFound")
    external = {"type": "ExternalName", "externalName": "localhost"}
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": external})
    yield Reason("Passed")
    yield Ask(PATH, until=200)
    yield from requests()
    yield patch(caBundle="bm8=")
    if release == "1.32":
        yield Ask(PATH, until=500)
    yield patch(caBundle=None)
    if release != "1.32":
        yield Reason("FailedDiscoveryCheck")
    yield Ask(PATH, until=503)
    yield Ask(f"{FLUNDERS}/a/echo", headers=UPGRADE)
    yield patch(caBundle=None, insecureSkipTLSVerify=True)
    yield Ask(PATH, until=200)
    yield patch(service=None, insecureSkipTLSVerify=None)
    yield Ask(PATH, until=404)
    for path in (f"{API_SERVICES}/{NAME}", f"{SERVICES}/api", f"{SLICES}/api"):
        yield Write("DELETE", path)


def requests() -> Iterator[Ask]:
    """Yield requests that are passed on."""
    yield Ask(f"{FLUNDERS}?b=2&a=1&a=%20x&c")
    yield Ask(f"{PATH}/")
    yield Ask(f"{FLUNDERS}/a%2Fb%20c")
    told = {"X-Remote-User": "evil", "X-Remote-Group": "g", "X-Remote-Extra-Foo": "x", "X-Forwarded-For": "1.1.1.1"}
    yield Ask(FLUNDERS, headers=told | {"Te": "trailers", "X-Own": "1", "X-Forwarded-Host": "h"}, alice=True)
    other = {"Impersonate-User": "bob", "Impersonate-Group": "g1", "Impersonate-Uid": "u"}
    yield Ask(FLUNDERS, headers=other | {"Impersonate-Extra-A%2fb": "s"})
    yield Ask(FLUNDERS, "POST", {"Content-Type": "application/json"}, {"a": 1})
    yield Ask(FLUNDERS, "HEAD")
    yield Ask(FLUNDERS, "OPTIONS")
    yield Ask(f"{FLUNDERS}?watch=1")
    for name in ("moved", "teapot", "cut"):
        yield Ask(f"{PATH}/{name}")
    yield Ask(f"{FLUNDERS}/a/echo", headers=UPGRADE | {"X-Remote-User": "evil"})
    yield Ask(f"{FLUNDERS}/a/other", headers=UPGRADE)
    yield Ask(f"{FLUNDERS}/a/refuse", headers=UPGRADE)
