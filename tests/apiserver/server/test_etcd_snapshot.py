"""Servers that show a snapshot of etcd. The errors are those of kube-apiserver 1.37.2 and 1.32.5 for such values."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.http import exchange
from understudy import Server
from understudy.apiserver.storage.engines.etcd_snapshot import READ_ONLY
from understudy.machinery.types import Obj

SAVED = Path(__file__).parent.parent / "storage/recorded/etcd-snapshot.db.gz"
SECRETS, CONFIG_MAPS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps"
UNREADABLE = "identity transformer tried to read encrypted data"
CORRUPT = "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: {}"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("etcd") / "snapshot.db"
    file.write_bytes(gzip.decompress(SAVED.read_bytes()))
    return file


def body_of(server: Server, path: str) -> Obj:
    body: Obj = exchange(server, "GET", path)[1]
    return body


def test_objects_are_served_and_nothing_is_written(snapshot: Path) -> None:
    with Server(etcd_snapshot=snapshot) as server:
        last = body_of(server, f"{CONFIG_MAPS}/last")
        assert last["metadata"]["resourceVersion"] == "258"
        before = body_of(server, "/apis/apps/v1/deployments?resourceVersion=250&resourceVersionMatch=Exact")
        assert before["metadata"]["resourceVersion"] == "250"
        for method, path, body in (
            ("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}),
            ("DELETE", f"{CONFIG_MAPS}/last", None),
        ):
            status, refused = exchange(server, method, path, body)
            assert (status, refused["message"]) == (500, READ_ONLY)
        assert body_of(server, "/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"] == "258"
        server.reset()
        assert body_of(server, f"{CONFIG_MAPS}/last") == last


def test_custom_resources_are_served_by_the_definitions_inside(snapshot: Path) -> None:
    with Server(etcd_snapshot=snapshot) as server:
        groups = [group["name"] for group in body_of(server, "/apis")["groups"]]
        assert "example.com" in groups or "stable.example.com" in groups


def test_unreadable_values_are_the_errors_of_the_real_server(snapshot: Path) -> None:
    with Server(etcd_snapshot=snapshot) as server:
        one = body_of(server, f"{SECRETS}/encrypted")
        what = f"data from the storage is not transformable revision=0: {UNREADABLE}"
        text = CORRUPT.format("/secrets/default/encrypted", what)
        assert (one["code"], one["reason"]) == (500, "InternalError")
        assert one["message"] == f"Internal error occurred: {text}"
        every = body_of(server, SECRETS)
        key = "/registry/secrets/default/encrypted"
        text = CORRUPT.format(key, what)
        assert every["message"] == f"failed to read one or more secrets from the storage: {text}"
        assert (every["reason"], every["code"]) == ("StorageReadError", 500)
        cause = {"reason": "UnexpectedServerResponse", "message": text, "field": key}
        assert every["details"] == {"name": "list", "kind": "secrets", "causes": [cause]}
        leases = body_of(server, "/apis/coordination.k8s.io/v1/leases")
        assert leases["message"].endswith("(and 59 more)")
        assert len(leases["details"]["causes"]) == 60


def test_unreadable_values_before_there_was_unsafe_deletion(snapshot: Path) -> None:
    with Server(etcd_snapshot=snapshot, emulated_version="1.32") as server:
        one = body_of(server, f"{SECRETS}/encrypted")
        assert one["message"] == f"Internal error occurred: {UNREADABLE}"
        every = body_of(server, SECRETS)
        key = "/registry/secrets/default/encrypted"
        assert every["message"] == f'Internal error occurred: unable to transform key "{key}": {UNREADABLE}'


def test_writable_copy_of_an_earlier_revision(snapshot: Path) -> None:
    before = snapshot.read_bytes()
    with Server(etcd_snapshot=snapshot, etcd_snapshot_revision=257, writable=True) as server:
        assert exchange(server, "GET", f"{CONFIG_MAPS}/last")[0] == 404
        made = server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}})
        assert int(made["metadata"]["resourceVersion"]) > 257
        server.reset()
        assert exchange(server, "GET", f"{CONFIG_MAPS}/new")[0] == 404
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"writable": True}, "--writable and --etcd-snapshot-revision are for --etcd-snapshot"),
        ({"etcd_snapshot": "a", "etcd_snapshot_revision": -1}, "want a revision that is not negative, not -1"),
        ({"etcd_snapshot": "a", "load": ["demo"]}, "--load and --controllers write: with --etcd-snapshot they need"),
        ({"etcd_snapshot": "a", "storage": "sqlite:b"}, "--etcd-snapshot excludes --storage and --etcd-servers"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Server(**options)  # type: ignore[arg-type]
