"""Addresses of services, and the IPAddress that stands for each of them, as the real servers have them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import send
from tests.releases import RELEASES, every_release
from understudy import Server
from understudy.machinery.releases.version import V1_33, Version
from understudy.machinery.types import Obj

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str = "a", **spec: Any) -> dict[str, Any]:
    spec = {"ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def post(server: Server, obj: dict[str, Any], query: str = "") -> tuple[int, Any]:
    response = send(server, "POST", SERVICES + query, obj)
    return response.status, response.json()


def addresses(server: Server) -> dict[str, Any]:
    """Return the IPAddresses by name, without the one of the service `kubernetes`."""
    return {obj["metadata"]["name"]: obj for obj in server.list("ipaddresses") if obj["metadata"]["name"] != "10.0.0.1"}


def with_ip_addresses(release: Version) -> dict[str, Any]:
    """Return the options of a server whose services have IPAddresses, which needs a gate before 1.33."""
    gates = {} if release >= V1_33 else {"MultiCIDRServiceAllocator": True}
    return {"emulated_version": str(release), "feature_gates": gates}


@every_release
def test_service_has_an_ip_address_as_long_as_it_is_stored(release: Version) -> None:
    """The server makes an IPAddress for the service, and deletes it with it once no finalizer holds that."""
    with Server(**with_ip_addresses(release)) as server:
        assert post(server, service(clusterIP="10.0.0.5"))[0] == 201
        (address,) = addresses(server).values()
        assert address["metadata"]["labels"] == {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        assert address["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}
        (owner,) = address["metadata"]["managedFields"]
        version = "v1" if release >= V1_33 else "v1beta1"
        expected = ("kube-apiserver", "Update", f"networking.k8s.io/{version}")
        assert (owner["manager"], owner["operation"], owner["apiVersion"]) == expected
        external = service(type="ExternalName", externalName="x.y", ports=None)
        assert send(server, "PUT", f"{SERVICES}/a", external).status == 200
        assert addresses(server) == {}
        kept = service(clusterIP="10.0.0.7")
        kept["metadata"]["finalizers"] = ["example.com/wait"]
        assert send(server, "PUT", f"{SERVICES}/a", kept).status == 200
        assert send(server, "DELETE", f"{SERVICES}/a").status == 200
        assert addresses(server).keys() == {"10.0.0.7"}
        let_go = {"metadata": {"finalizers": None}}
        assert send(server, "PATCH", f"{SERVICES}/a", let_go).status == 200
        assert addresses(server) == {}
        assert post(server, service())[1]["spec"]["clusterIP"] in addresses(server)
        assert send(server, "DELETE", f"{SERVICES}/a").status == 200
        assert addresses(server) == {}


@every_release
def test_service_that_is_not_stored_leaves_no_ip_address(release: Version) -> None:
    """Names that are taken, invalid objects and dry runs give the address back."""
    with Server(**with_ip_addresses(release)) as server:
        assert post(server, service(clusterIP="10.0.0.5"))[0] == 201
        assert post(server, service(clusterIP="10.0.0.6"))[0] == 409
        assert post(server, service("b", clusterIP="10.0.0.6", type="NodePort", ports=[{"port": 0}]))[0] == 422
        assert post(server, service("b", clusterIP="10.0.0.6"), "?dryRun=All")[0] == 201
        assert addresses(server).keys() == {"10.0.0.5"}


@every_release
def test_address_that_cannot_be_allocated(release: Version) -> None:
    """An address is taken by its IPAddress, whoever made it; a dry run checks only the range."""
    with Server(**with_ip_addresses(release)) as server:
        api_version = "networking.k8s.io/v1" if release >= V1_33 else "networking.k8s.io/v1beta1"
        parent = {"resource": "pods", "name": "x", "namespace": "default"}
        taken: Obj = {"apiVersion": api_version, "kind": "IPAddress", "metadata": {"name": "10.0.0.8"}}
        server.apply({**taken, "spec": {"parentRef": parent}})
        for ip, query, reason in (
            ("10.0.0.8", "", "provided IP is already allocated"),
            ("10.0.0.255", "", "the provided network does not match the current range"),
            (
                "10.1.0.5",
                "?dryRun=All",
                "the provided IP (10.1.0.5) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
            ),
        ):
            status, answer = post(server, service(clusterIP=ip), query)
            assert status == 422
            assert answer["message"].endswith(f"failed to allocate IP {ip}: {reason}")
        assert post(server, service(clusterIP="10.0.0.8"), "?dryRun=All")[0] == 201


def test_addresses_come_from_every_service_cidr() -> None:
    """A ServiceCIDR adds a range at once, and none while it is not ready."""
    with Server() as server:
        extra: Obj = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "extra"}}
        server.apply({**extra, "spec": {"cidrs": ["10.9.0.0/28"]}})
        assert post(server, service(clusterIP="10.9.0.3"))[0] == 201
        assert "10.9.0.3" in addresses(server)
        not_ready = {"type": "Ready", "status": "False", "reason": "r", "message": ""}
        path = "/apis/networking.k8s.io/v1/servicecidrs/extra/status"
        status = {"status": {"conditions": [{**not_ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
        assert send(server, "PATCH", path, status).status == 200
        assert post(server, service("b", clusterIP="10.9.0.4"))[0] == 422


@pytest.mark.parametrize("release", [r for r in RELEASES if r < V1_33], ids=str)
def test_without_the_gate_there_are_no_ip_addresses(release: Version) -> None:
    """Neither services nor the server itself make any, though the kinds may be served."""
    with Server(emulated_version=str(release), runtime_config={"networking.k8s.io/v1beta1": True}) as server:
        assert post(server, service(clusterIP="10.0.0.5"))[0] == 201
        assert server.list("ipaddresses") == server.list("servicecidrs") == []
        status, answer = post(server, service("b", clusterIP="10.0.0.05"))
        assert status == 422
        assert answer["message"].endswith("failed to allocate IP 10.0.0.05: provided IP is already allocated")


_REFUSED = "was accepted, but will be invalid in a future Kubernetes release"
_NOT_CANONICAL = "is not in RFC 5952 canonical format"
_LOOPS = "which may cause controller apply-loops"


@pytest.mark.parametrize("release", [r for r in RELEASES if r < V1_33], ids=str)
def test_warnings_of_addresses_before_1_33(release: Version) -> None:
    """Addresses and networks of services that Go's `netip` refuses or prints differently are warned of."""
    with Server(emulated_version=str(release)) as server:
        spec: Obj = {
            "type": "LoadBalancer",
            "externalIPs": ["01.2.3.4", "fd00:0::1", "::ffff:1.2.3.4"],
            "loadBalancerSourceRanges": ["fe80::0:1/64", "::ffff:1.2.3.4/120", "10.0.0.1/8", " 1.2.3.4/3"],
        }
        assert send(server, "POST", SERVICES, service(**spec)).warnings == [
            f'spec.externalIPs[0]: IP address {_REFUSED}: ParseAddr("01.2.3.4"): '
            "IPv4 field has octet with leading zero",
            f'spec.externalIPs[1]: IPv6 address "fd00:0::1" {_NOT_CANONICAL} ("fd00::1"), {_LOOPS}',
            f'spec.loadBalancerSourceRanges[0]: IPv6 prefix "fe80::0:1/64" {_NOT_CANONICAL} ("fe80::1/64"), {_LOOPS}',
            f'spec.loadBalancerSourceRanges[3]: IP prefix {_REFUSED}: netip.ParsePrefix(" 1.2.3.4/3"): '
            'ParseAddr(" 1.2.3.4"): unexpected character (at " 1.2.3.4")',
        ]


@every_release
def test_dry_run_does_not_allocate_node_ports(release: Version) -> None:
    """Dry runs show node ports above 32768, accept ports out of range, and refuse those that are taken."""
    with Server(emulated_version=str(release)) as server:
        two = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
        local = service(type="LoadBalancer", externalTrafficPolicy="Local", ports=two)
        spec = post(server, local, "?dryRun=All")[1]["spec"]
        assert [port["nodePort"] for port in spec["ports"]] == [32769, 32770]
        assert spec["healthCheckNodePort"] == 32771
        assert post(server, service(type="NodePort", ports=[{"port": 80, "nodePort": 30001}]))[0] == 201
        status, answer = post(
            server, service("b", type="NodePort", ports=[{"port": 80, "nodePort": 30001}]), "?dryRun=All"
        )
        assert status == 422
        assert answer["message"].endswith("provided port is already allocated")
        assert post(server, service("b", type="NodePort", ports=[{"port": 80, "nodePort": 5}]), "?dryRun=All")[0] == 201


@every_release
def test_protocols_of_a_port_may_share_a_node_port(release: Version) -> None:
    """Two ports may not, in a dry run either."""
    with Server(emulated_version=str(release)) as server:
        first = {"name": "a", "port": 80, "nodePort": 30008}
        for query in ("?dryRun=All", ""):
            other = service("b", type="NodePort", ports=[first, {**first, "name": "b", "port": 81}])
            assert post(server, other, query)[1]["message"].endswith("provided port is already allocated")
            same = service("b", type="NodePort", ports=[first, {**first, "name": "b", "protocol": "UDP"}])
            assert post(server, same, query)[0] == 201


def test_a_status_write_creates_a_missing_service(apiserver: Server) -> None:
    """A write of the status of a missing service creates it, without status and without the addresses of a POST."""
    path = f"{SERVICES}/a/status"
    body = {**service(), "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}}
    response = send(apiserver, "PUT", path, body)
    created = response.json()
    assert (response.status, created["status"], "clusterIP" in created["spec"]) == (201, {"loadBalancer": {}}, False)
    refused = send(apiserver, "PUT", f"{SERVICES}/b/status", service("b", clusterIP="None")).json()
    assert refused["message"] == 'Service "b" is invalid: spec.clusterIPs: Required value'


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(True, marks=pytest.mark.apiserver(emulated_version="1.36")),
        pytest.param(False, marks=pytest.mark.apiserver(emulated_version="1.37")),
    ],
    ids=["1.36", "1.37"],
)
def test_endpoints_are_deleted_with_their_service(apiserver: Server, gone: bool) -> None:
    """Up to 1.36 the Endpoints of a service's name are deleted after it, no others, and none by a dry run."""
    for name in ("a", "b"):
        assert post(apiserver, service(name))[0] == 201
        endpoints = {"metadata": {"name": name}}
        assert send(apiserver, "POST", "/api/v1/namespaces/default/endpoints", endpoints).status == 201
    for query, left in (("?dryRun=All", ["a", "b"]), ("", ["b"] if gone else ["a", "b"])):
        assert send(apiserver, "DELETE", f"/api/v1/namespaces/default/services/a{query}").status == 200
        items = send(apiserver, "GET", "/api/v1/namespaces/default/endpoints").json()["items"]
        assert [item["metadata"]["name"] for item in items] == left
