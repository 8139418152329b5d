"""Servers that keep their objects in one etcd behave as one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.etcd import Etcd, running
from tests.http import Connection, send, watch
from tests.scripts.commands import run
from understudy import Server, StatusError
from understudy.apiserver.storage.engines.etcd import engine as etcd_engine
from understudy.apiserver.storage.engines.etcd import messages as pb
from understudy.apiserver.storage.engines.etcd.client import EtcdClient
from understudy.machinery.serializer.rpc.messages import Message
from understudy.machinery.types import Obj

T = TypeVar("T", bound=Message)
CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "before"}}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
EVENT: Obj = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def servers(etcd: Etcd) -> Iterator[tuple[Server, Server]]:
    """Return two servers that have begun at the same time."""
    with Server(etcd_servers=etcd.url, event_ttl="2s") as one, Server(etcd_servers=[etcd.url]) as other:
        yield one, other


def call(etcd: Etcd, method: str, request: Any, response: type[T]) -> T:
    """Make a call to etcd, and return its answer."""

    async def answer() -> T:
        client = EtcdClient([etcd.url])
        try:
            return await client.read(method, request, response, 30)
        finally:
            await client.close()

    return asyncio.run(answer())


def kept(etcd: Etcd, key: str) -> tuple[pb.KeyValue, ...]:
    """Read a key from etcd."""
    return call(etcd, pb.RANGE, pb.RangeRequest(key.encode()), pb.RangeResponse).kvs


def test_servers_know_each_others_writes(servers: tuple[Server, Server]) -> None:
    """A server reads at once what the other has written, and refuses to write over it; either resumes watches."""
    one, other = servers
    created = one.create(CONFIG_MAP)
    assert other.get("configmaps", "a") == created
    changed = other.patch("configmaps", "a", {"data": {"key": "after"}})
    with pytest.raises(StatusError, match="the object has been modified"):
        one.update({**created, "data": {"key": "lost"}})
    one.delete("configmaps", "a")
    assert send(other, "GET", f"{CONFIG_MAPS}/a").status == 404
    version = created["metadata"]["resourceVersion"]
    for server in servers:
        with watch(server, CONFIG_MAPS, f"&resourceVersion={version}") as events:
            seen = [(event["type"], event["object"]["data"]["key"]) for event in islice(events, 2)]
        assert seen == [("MODIFIED", "after"), ("DELETED", "after")]
    newer = changed["metadata"]["resourceVersion"]
    assert send(one, "GET", f"{CONFIG_MAPS}?resourceVersion={newer}").status == 200


def test_keys_and_values_are_kube_apiservers(servers: tuple[Server, Server], etcd: Etcd) -> None:
    """etcd has protobuf behind its prefix, under the key that a kube-apiserver has for it."""
    (entry,) = kept(etcd, "/registry/namespaces/default")
    assert entry.value.startswith(b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace")
    assert int(servers[0].get("namespaces", "default")["metadata"]["resourceVersion"]) == entry.mod_revision


def test_events_end_with_their_lease(servers: tuple[Server, Server]) -> None:
    """etcd itself deletes events after `--event-ttl`."""
    one, other = servers
    created = one.create(EVENT)
    path, version = "/api/v1/namespaces/default/events", created["metadata"]["resourceVersion"]
    with watch(other, path, f"&resourceVersion={version}") as events:
        assert next(events)["type"] == "DELETED"


def test_watch_ends_at_what_cannot_be_read(tmp_path: Path) -> None:
    """A watch that has waited for a while ends, as its client can tell, where something else has written no object."""
    with running(tmp_path) as etcd, Server(etcd_servers=etcd.url) as server, closing(Connection(server.url)) as client:
        events = client.open("GET", f"{CONFIG_MAPS}?watch=1")
        for name in ("a", "b"):
            server.create({**CONFIG_MAP, "metadata": {"name": name}})
            assert json.loads(events.readline())["object"]["metadata"]["name"] == name
        put = pb.PutRequest(b"/registry/configmaps/default/c", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":5}')
        call(etcd, pb.TXN, pb.TxnRequest(success=(pb.RequestOp(request_put=put),)), pb.TxnResponse)
        assert events.read() == b""  # raises IncompleteRead where the answer is only cut off


def test_etcd_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without etcd only what may be old is read; health checks say why, writes are late; then all goes on."""
    monkeypatch.setattr(etcd_engine, "CHECKS", 0.3)
    monkeypatch.setattr(etcd_engine, "WRITES", 0.5)
    monkeypatch.setattr(etcd_engine, "READS", 0.5)
    with running(tmp_path) as etcd, Server(etcd_servers=etcd.url) as server:
        version = server.create(CONFIG_MAP)["metadata"]["resourceVersion"]
        assert send(server, "GET", "/readyz").body == b"ok"
        etcd.kill()
        reason = b"internal server error: error getting data from etcd: context deadline exceeded\n"
        assert send(server, "GET", "/readyz/etcd")[::2] == (500, reason)
        ready = send(server, "GET", "/readyz")
        assert (ready.status, b"[-]etcd failed: reason withheld\n" in ready.body) == (500, True)
        for path in (f"{CONFIG_MAPS}/a", CONFIG_MAPS):
            assert send(server, "GET", f"{path}?resourceVersion=0").status == 200
            assert send(server, "GET", path).status == 504
        message = "Timeout: request did not complete within requested timeout - context deadline exceeded"
        event = {
            "metadata": {"name": "b"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "b"},
        }
        for path, obj in ((CONFIG_MAPS, {**CONFIG_MAP, "metadata": {"name": "b"}}), (EVENTS, event)):
            late = send(server, "POST", path, obj)
            assert (late.status, late.json()["reason"], late.json()["message"]) == (504, "Timeout", message)
        with watch(server, CONFIG_MAPS, f"&resourceVersion={version}") as events:
            etcd.start()
            monkeypatch.setattr(etcd_engine, "WRITES", 30)
            monkeypatch.setattr(etcd_engine, "READS", 30)
            assert server.create({**CONFIG_MAP, "metadata": {"name": "c"}})
            assert next(events)["object"]["metadata"]["name"] == "c"
        assert send(server, "GET", "/readyz").body == b"ok"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"etcd_servers": "127.0.0.1:1"},
            "--etcd-servers: want URLs such as http://127.0.0.1:2379, not '127.0.0.1:1'",
        ),
        (
            {"etcd_servers": "http://127.0.0.1:1", "storage": "sqlite:x"},
            "--storage and --etcd-servers exclude each other",
        ),
        ({"etcd_certfile": "x"}, "--etcd-certfile and --etcd-keyfile are given together"),
        ({"etcd_servers": "https://127.0.0.1:1", "etcd_cafile": "/no/ca"}, "/no/ca: No such file or directory"),
        (
            {"etcd_servers": "http://127.0.0.1:1"},
            "etcd at http://127.0.0.1:1 does not answer: context deadline exceeded",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says in one line what is wrong."""
    monkeypatch.setattr(etcd_engine, "OPENS", 0.3)
    with pytest.raises((ValueError, OSError)) as refused, Server(**options):
        pass
    assert str(refused.value) == message


@pytest.mark.maintenance
def test_servers_are_as_one_under_load(servers: tuple[Server, Server]) -> None:
    """Writers and watchers that use either server lose nothing, see nothing twice, and read nothing that is old."""
    result = run("torture", "shared", *(server.url for server in servers), "--seconds", "2", "--watchers", "4")
    assert result.stdout.endswith("\nnothing is lost, doubled, out of order or stale\n"), result
