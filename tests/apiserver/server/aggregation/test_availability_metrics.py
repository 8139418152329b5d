"""The metrics that tell which APIServices are unavailable."""

from __future__ import annotations

from scripts.compare.cases.aggregated_server import AggregatedServer
from tests.http import send
from tests.waiting import wait_until
from understudy import Server

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = "v1alpha1.wardle.example.com"
GAUGE = "aggregator_unavailable_apiservice"


def samples(server: Server) -> dict[str, str]:
    """Return the values of the series that tell of the APIService, by their names."""
    lines = send(server, "GET", "/metrics").body.decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line.startswith(GAUGE) and NAME in line)


def test_unavailable_services_are_told() -> None:
    """The gauge is 1 while an APIService is unavailable; what was available before is counted, with the reason."""
    gauge, counter = f'{GAUGE}{{name="{NAME}"}}', f'{GAUGE}_total{{name="{NAME}",reason="ServiceNotFound"}}'
    with AggregatedServer() as aggregated, Server() as server:
        place = {"namespace": "default", "name": "api", "port": aggregated.port}
        spec = {"group": "wardle.example.com", "version": "v1alpha1", "groupPriorityMinimum": 1, "versionPriority": 1}
        spec |= {"service": place, "insecureSkipTLSVerify": True}
        assert send(server, "POST", API_SERVICES, {"metadata": {"name": NAME}, "spec": spec}).status == 201
        assert wait_until(lambda: samples(server) == {gauge: "1"})
        external = {"type": "ExternalName", "externalName": "localhost"}
        send(server, "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "api"}, "spec": external})
        assert wait_until(lambda: samples(server) == {gauge: "0"})
        send(server, "DELETE", "/api/v1/namespaces/default/services/api")
        assert wait_until(lambda: samples(server) == {gauge: "1", counter: "1"})
        send(server, "DELETE", f"{API_SERVICES}/{NAME}")
        assert wait_until(lambda: samples(server) == {counter: "1"})
        assert f'{GAUGE}{{name="v1."}} 0' in send(server, "GET", "/metrics").body.decode()
