"""Servers that share one etcd know of each other, and end as one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.etcd import Etcd, running
from tests.waiting import wait_until
from understudy import Server, StatusError
from understudy.apiserver.controllers.replicas import identity_lease, kubernetes_service
from understudy.apiserver.controllers.replicas.replica import Replica
from understudy.apiserver.storage import engine_store
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
