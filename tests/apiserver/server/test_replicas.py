"""Servers that share one etcd know of each other, and end as one."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, cast

import pytest

from tests.clock import FixedDate
from tests.etcd import Etcd, running
from tests.front_door import front_door
from tests.http import send
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.apiserver.controllers.replicas import identity_lease, kubernetes_service
from understudy.apiserver.controllers.replicas.replica import Replica
from understudy.apiserver.server.bootstrap.ranges import repair
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.storage import engine_store
from understudy.kinds.core.services.held_numbers import NODE_PORTS
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj

FIRST, SECOND = "10.9.9.1", "10.9.9.2"
IDENTITY = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases be renewed often, and end soon."""
    monkeypatch.setattr(kubernetes_service, "INTERVAL", 0.1)
    monkeypatch.setattr(identity_lease, "INTERVAL", 0.1)
    monkeypatch.setattr(identity_lease, "COLLECTS", 0.1)
    monkeypatch.setattr(engine_store, "MASTER_LEASE_SECONDS", 2)


@pytest.fixture(scope="module")
def servers(etcd: Etcd) -> Iterator[tuple[Server, Server]]:
    place: Any = {"etcd_servers": etcd.url, "etcd_prefix": "/two"}
    with Server(**place) as one, Server(**place) as other:
        yield one, other


def replica(etcd: Etcd, address: str) -> Server:
    return Server(etcd_servers=etcd.url, etcd_prefix="/known", advertise_address=address)


def endpoints(server: Server) -> list[str]:
    """Return the addresses of the Service `kubernetes`, on which Endpoints and EndpointSlice have to agree."""

    def read() -> list[list[str]]:
        try:
            subsets = server.get("endpoints", "kubernetes").get("subsets") or []
            slices = server.get("endpointslices", "kubernetes").get("endpoints") or []
        except StatusError:
            return [[], ["missing"]]
        addresses = [each["ip"] for subset in subsets for each in subset["addresses"]]
        return [addresses, [address for each in slices for address in each["addresses"]]]

    return wait_until(read, lambda seen: seen[0] == seen[1])[0]


def test_endpoints_are_the_servers_that_live(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server adds its address, and removes it when it ends; that of one that was killed expires."""
    with replica(etcd, FIRST) as one:
        wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST])
        stored = one.get("endpoints", "kubernetes")
        assert stored["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
        assert stored["subsets"][0]["ports"] == [{"name": "https", "port": int(one.url[-5:]), "protocol": "TCP"}]
        with replica(etcd, SECOND):
            wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST, SECOND])
        wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST])

        async def is_killed(self: Replica) -> None:
            """Remove nothing."""

        with monkeypatch.context() as patch, replica(etcd, SECOND):
            wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST, SECOND])
            patch.setattr(Replica, "leave", is_killed)
        wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST])
        one.delete("services", "kubernetes")
        wait_until(lambda: [each["metadata"]["name"] for each in one.list("services")], lambda names: names)


def test_endpoints_are_as_many_servers_as_said(etcd: Etcd) -> None:
    """A server takes the place of the one that follows it, and leaves its own when it ends."""

    def counted(address: str) -> Server:
        options: Any = {"endpoint_reconciler_type": "master-count", "apiserver_count": 1}
        return Server(etcd_servers=etcd.url, etcd_prefix="/counted", advertise_address=address, **options)

    with counted(FIRST) as one:
        wait_until(lambda: endpoints(one), lambda seen: seen == [FIRST])
        with counted(SECOND):
            wait_until(lambda: endpoints(one), lambda seen: seen == [SECOND])
        wait_until(lambda: endpoints(one), lambda seen: SECOND not in seen)


def leases(server: Server) -> list[Obj]:
    return server.list("leases", namespace="kube-system", labels=IDENTITY)


def test_identity_lease(etcd: Etcd) -> None:
    """A server renews the Lease that has its name, makes it anew if it was deleted, and deletes what others left."""
    with replica(etcd, FIRST) as one:
        (lease,) = wait_until(lambda: leases(one))
        name = lease["metadata"]["name"]
        assert lease["spec"]["holderIdentity"].startswith(f"{name}_")
        assert lease["spec"]["leaseDurationSeconds"] == 3600
        wait_until(lambda: leases(one)[0]["spec"]["renewTime"], lambda time: time > lease["spec"]["renewTime"])
        left = {**lease, "metadata": {"name": "left", "namespace": "kube-system", "labels": IDENTITY}}
        one.create({**left, "spec": {**lease["spec"], "renewTime": "2020-01-01T00:00:00.000000Z"}})
        one.delete("leases", name, namespace="kube-system")
        wait_until(lambda: [each["metadata"]["name"] for each in leases(one)], lambda names: name in names)
        wait_until(lambda: [each["metadata"]["name"] for each in leases(one)], lambda names: names == [name])


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("here", "must be a valid IP address"),
    ],
)
def test_address_that_cannot_be_advertised(address: str, reason: str) -> None:
    """The error says why an address cannot be an endpoint."""
    with pytest.raises(ValueError, match="--advertise-address") as refused:
        Server(advertise_address=address)
    assert str(refused.value) == f"--advertise-address: {address} {reason}"


def test_store_that_does_not_answer_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that cannot take back its endpoints says why, and ends."""

    class Stuck:
        async def stop(self) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr("understudy.apiserver.controllers.replicas.replica.LEAVING", 0.0)
    leaving = Replica(front_door(V1_34, FixedDate()).state, cast("Any", None), None, 0)
    monkeypatch.setattr(leaving, "_endpoints", Stuck())
    asyncio.run(leaving.leave())
    assert caplog.messages == ["cannot remove this server from the endpoints of the Service kubernetes: timeout"]


SERVICE: Obj = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}], "type": "NodePort"}}


@pytest.mark.parametrize("release", ["1.32", pytest.param("1.33", marks=pytest.mark.maintenance), "1.37"])
def test_no_number_is_given_twice(etcd: Etcd, release: str) -> None:
    """Servers that create services at the same moment give each another cluster IP and node port."""
    place: Any = {"etcd_servers": etcd.url, "etcd_prefix": f"/numbers-{release}", "emulated_version": release}
    with Server(**place) as one, Server(**place) as other:

        def create(number: int) -> Obj:
            server = (one, other)[number % 2]
            return server.create({**SERVICE, "metadata": {"name": f"s{number}"}})

        with ThreadPoolExecutor(8) as threads:
            created = [*threads.map(create, range(24))]
        assert len({service["spec"]["clusterIP"] for service in created}) == 24
        assert len({service["spec"]["ports"][0]["nodePort"] for service in created}) == 24
        taken = created[0]["spec"]
        with pytest.raises(StatusError, match="provided IP is already allocated"):
            other.create({**SERVICE, "metadata": {"name": "same"}, "spec": {**taken, "ports": [{"port": 80}]}})
        port = {**SERVICE["spec"], "ports": [{"port": 80, "nodePort": taken["ports"][0]["nodePort"]}]}
        with pytest.raises(StatusError, match="provided port is already allocated"):
            other.create({**SERVICE, "metadata": {"name": "same"}, "spec": port})
        one.delete("services", "s0")

        def create_same() -> Obj | None:
            with suppress(StatusError):  # until the other server has heard that the numbers are free
                return other.create({**SERVICE, "metadata": {"name": "same"}, "spec": {**taken, **port}})
            return None

        assert (wait_until(create_same) or {}).get("spec") == taken


def test_lost_numbers_are_free_again(etcd: Etcd) -> None:
    """A number that a server has taken before it was killed is free after some repairs; one that is held never is."""
    with Server(etcd_servers=etcd.url, etcd_prefix="/lost") as server:
        state = server._lifecycle.state
        ranges = state.registry.allocations.ranges
        port = server.create({**SERVICE, "metadata": {"name": "held"}})["spec"]["ports"][0]["nodePort"]
        lost = ranges.taken({NODE_PORTS: NODE_PORTS.bits([30000])})  # kept: it would free the number at its end
        server._run(lost.__aenter__())
        seen = []
        for _ in range(4):
            seen.append({*NODE_PORTS.numbers(ranges.allocated(NODE_PORTS))})
            server._run(repair(state.registry, state.gates))
        assert seen == [{30000, port}] * 3 + [{port}]


def test_tokens_and_certificates_are_good_at_all_servers(etcd: Etcd) -> None:
    """A token that one server has issued names its user at the other, whose certificate is from the same authority."""
    place: Any = {"etcd_servers": etcd.url, "etcd_prefix": "/keys"}
    with Server(**place) as one, Server(**place) as other:
        one.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}})
        request: Obj = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = send(one, "POST", "/api/v1/namespaces/default/serviceaccounts/bot/token", request)
        review: Obj = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": answer.json()["status"]["token"]},
        }
        status = send(other, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).json()["status"]
        assert (status["authenticated"], status["user"]["username"]) == (True, "system:serviceaccount:default:bot")
    certificates = [ServerConfig(**place, tls=True).certificates for _ in range(2)]
    assert all(each.contexts() for each in certificates)
    assert certificates[0].authority == certificates[1].authority


QUOTA: Obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
HARD = {"count/configmaps": "10"}


def test_no_quota_is_exceeded(servers: tuple[Server, Server]) -> None:
    """Sixteen writers at two servers get as much as a quota has, and not one object more."""
    one, other = servers
    one.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "small"}})
    one.create({**QUOTA, "metadata": {"name": "q", "namespace": "small"}, "spec": {"hard": HARD}})
    status = {"status": {"hard": HARD, "used": {"count/configmaps": "0"}}}
    one.patch("resourcequotas", "q", status, namespace="small", subresource="status")
    other.get("resourcequotas", "q", namespace="small")

    def create(number: int) -> str:
        metadata = {"name": f"c{number}", "namespace": "small"}
        try:
            servers[number % 2].create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        except StatusError as why:
            return why.reason
        return "Created"

    with ThreadPoolExecutor(16) as threads:
        assert Counter(threads.map(create, range(40))) == {"Created": 10, "Forbidden": 30}
    assert len(other.list("configmaps", namespace="small")) == 10
    assert other.get("resourcequotas", "q", namespace="small")["status"]["used"] == {"count/configmaps": "10"}


def test_new_namespace_is_open_everywhere(servers: tuple[Server, Server]) -> None:
    """A server creates objects in a namespace that another one has just made, before it has heard of it."""
    one, other = servers
    for number in range(10):
        metadata = {"name": "c", "namespace": f"new-{number}"}
        one.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": metadata["namespace"]}})
        other.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    with pytest.raises(StatusError, match='namespaces "nowhere" not found'):
        other.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "nowhere"}})


def test_namespace_that_ends_is_closed_everywhere(servers: tuple[Server, Server]) -> None:
    """A server that has read that a namespace is being deleted by another one creates no object there."""
    one, other = servers
    one.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ends"}})
    config_map: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ends"}}
    other.create(config_map)
    one.delete("namespaces", "ends")
    assert other.get("namespaces", "ends")["status"]["phase"] == "Terminating"
    with pytest.raises(StatusError, match="because it is being terminated"):
        other.create({**config_map, "metadata": {"name": "late", "namespace": "ends"}})


def test_definition_is_served_everywhere(servers: tuple[Server, Server]) -> None:
    """A custom resource that is defined at one server is soon served by the other, and no more when it is deleted."""
    one, other = servers
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    one.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )
    path = "/apis/example.com/v1/namespaces/default/widgets"
    widget: Obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    wait_until(lambda: send(other, "POST", path, widget).status, lambda status: status == 201)
    wait_until(lambda: send(one, "GET", f"{path}/w").status, lambda status: status == 200)
    other.delete("customresourcedefinitions", "widgets.example.com")
    wait_until(
        lambda: [send(server, "GET", path).status for server in servers], lambda statuses: statuses == [404, 404]
    )


def test_controllers_run_at_one_server(etcd: Etcd) -> None:
    """One server is elected to run the controllers; another is when that ends."""
    times = {"lease_duration": "5s", "renew_deadline": "4s", "retry_period": "0.2s"}
    place: Any = {f"leader_elect_{name}": text for name, text in times.items()}
    place |= {"etcd_servers": etcd.url, "etcd_prefix": "/elected", "controllers": ["namespace", "resourceclaim"]}
    name = "metadata.name=kube-controller-manager"

    def holder(server: Server) -> str:
        leases = server.list("leases", "kube-system", fields=name)
        return str(leases[0]["spec"]["holderIdentity"]) if leases else ""

    def end_namespace(server: Server) -> None:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ends"}})
        server.delete("namespaces", "ends")
        wait_until(lambda: send(server, "GET", "/api/v1/namespaces/ends").status, lambda status: status == 404)

    with ExitStack() as first:
        one = first.enter_context(Server(**place))
        leader = wait_until(lambda: holder(one))
        with Server(**place) as other:
            end_namespace(other)
            assert holder(other) == leader
            first.close()
            wait_until(lambda: holder(other), lambda now: now not in ("", leader))
            end_namespace(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leader_elect_lease_duration": "9s"}, "leaseDuration must be greater than renewDeadline"),
        ({"leader_elect_retry_period": "9s"}, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ({"leader_elect_renew_deadline": "soon"}, "--leader-elect-renew-deadline: want a time such as 15s"),
        (
            {"coordinated_leadership_lease_duration": "10s"},
            "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
        ),
        (
            {"coordinated_leadership_retry_period": "10s"},
            "--coordinated-leadership-renew-deadline must be greater than --coordinated-leadership-retry-period",
        ),
    ],
)
def test_election_that_makes_no_sense(options: Any, message: str) -> None:
    """The error says which time is wrong."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Server(**options)
