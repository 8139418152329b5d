"""`Server.snapshot` and `restore`: what a server holds comes back, and clients notice that it is another history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send, watch
from understudy import Server, StatusError
from understudy.machinery.types import Obj

CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "before"}}
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
GATE = "DRAConsumableCapacity"


def definition(version: str) -> Obj:
    """Return the definition of widgets, served in one version."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(controllers=["namespace"]) as server:
        yield server


@pytest.fixture(autouse=True)
def as_new(server: Server) -> None:
    """Begin each test with a server that is as new."""
    server.reset()


def test_objects_come_back_as_they_were(server: Server) -> None:
    """Objects that were changed, deleted or created since are as before, to the last byte, each time."""
    server.create(CONFIG_MAP)
    before, snapshot = send(server, "GET", f"{CONFIG_MAPS}/a").body, server.snapshot()
    for _ in range(2):
        server.patch("configmaps", "a", {"data": {"key": "after"}})
        server.create({**CONFIG_MAP, "metadata": {"name": "b"}})
        server.delete("configmaps", "a")
        server.restore(snapshot)
        assert send(server, "GET", f"{CONFIG_MAPS}/a").body == before
        assert [obj["metadata"]["name"] for obj in server.list("configmaps", "default")] == ["a"]


def test_snapshot_counts_its_objects(server: Server) -> None:
    """A snapshot is shown with its release, and its length is the number of objects."""
    before = server.snapshot()
    server.create(CONFIG_MAP)
    assert len(server.snapshot()) == len(before) + 1
    assert repr(before) == f"Snapshot(version={before.version!r})"


def test_clients_notice(server: Server) -> None:
    """Open watches end, and what continues from before is answered with 410; a new list can be watched."""
    server.create(CONFIG_MAP)
    server.create({**CONFIG_MAP, "metadata": {"name": "b"}})
    snapshot = server.snapshot()
    page = send(server, "GET", f"{CONFIG_MAPS}?limit=1").json()["metadata"]
    version = server.create({**CONFIG_MAP, "metadata": {"name": "c"}})["metadata"]["resourceVersion"]
    with watch(server, CONFIG_MAPS, f"&resourceVersion={version}") as events:
        server.restore(snapshot)
        assert list(events) == []
    with watch(server, CONFIG_MAPS, f"&resourceVersion={version}") as events:
        assert next(events)["object"]["code"] == 410
    assert send(server, "GET", f"{CONFIG_MAPS}?limit=1&continue={page['continue']}").status == 410
    listed = server.list("configmaps", "default")
    assert int(listed.resource_version) > int(version)
    with server.watch("configmaps", resource_version=listed.resource_version) as changes:
        server.patch("configmaps", "a", {"data": {"key": "after"}})
        assert next(changes).type == "MODIFIED"


def test_revisions_are_checked_as_before(server: Server) -> None:
    """An update of a revision that was restored succeeds, one of a revision that is gone is a conflict."""
    old = server.create(CONFIG_MAP)
    snapshot = server.snapshot()
    new = server.patch("configmaps", "a", {"data": {"key": "after"}})
    server.restore(snapshot)
    with pytest.raises(StatusError) as refused:
        server.update(new)
    assert refused.value.reason == "Conflict"
    assert int(server.update({**old, "data": {}})["metadata"]["resourceVersion"]) > int(
        new["metadata"]["resourceVersion"]
    )


def test_definitions_serve_what_they_served(server: Server) -> None:
    """Custom resources are served as at the time of the snapshot, from the next request on."""
    server.create(definition("v1"))
    server.wait_for("crd", "widgets.example.com", "Established")
    server.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
    with_v1 = server.snapshot()
    server.delete("crd", "widgets.example.com")
    server.wait_for("crd", "widgets.example.com", "deleted")
    server.create(definition("v2"))
    server.wait_for("crd", "widgets.example.com", "Established")
    with_v2 = server.snapshot()
    for snapshot, served, names in ((with_v1, "v1", ["w"]), (with_v2, "v2", [])):
        server.restore(snapshot)
        assert [obj["metadata"]["name"] for obj in server.list("widgets")] == names
        path = "/apis/example.com/{}/widgets"
        assert [v for v in ("v1", "v2") if send(server, "GET", path.format(v)).status == 200] == [served]


def test_gates_and_functions_come_back(server: Server) -> None:
    """Feature gates are those of the snapshot, and so are webhooks that are functions; their names are free again."""
    on = server.set_feature_gates({})[GATE]
    snapshot = server.snapshot()
    for _ in range(2):

        def refuse(request: Obj) -> Any:
            return "no"

        server.set_feature_gates({GATE: not on})
        server.webhook("configmaps")(refuse)
        with_webhook = server.snapshot()
        server.restore(snapshot)
        assert server.set_feature_gates({})[GATE] is on
        server.create(CONFIG_MAP)
        server.restore(with_webhook)
        assert server.set_feature_gates({})[GATE] is not on
        with pytest.raises(StatusError, match="no"):
            server.create(CONFIG_MAP)
        server.restore(snapshot)


def test_what_is_made_of_the_kinds_is_kept(server: Server) -> None:
    """A server without custom resources serves the same before and after a reset: routes are not built again."""
    before = server.state.serving
    server.reset()
    assert server.state.serving is before


def test_controllers_work_on_what_is_restored(server: Server) -> None:
    """Controllers begin anew with what is stored: a namespace that was ending comes to its end."""
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    server.create({**CONFIG_MAP, "metadata": {"name": "a", "namespace": "n", "finalizers": ["example.com/x"]}})
    server.delete("namespaces", "n")
    ending = server.snapshot()
    server.patch("configmaps", "a", {"metadata": {"finalizers": None}}, namespace="n")
    server.wait_for("namespaces", "n", "deleted")
    server.restore(ending)
    assert server.get("namespaces", "n")["status"]["phase"] == "Terminating"
    server.patch("configmaps", "a", {"metadata": {"finalizers": None}}, namespace="n")
    server.wait_for("namespaces", "n", "deleted")


def test_snapshots_move_between_servers_of_a_release(server: Server) -> None:
    """Another server of the release holds what the snapshot does; one of another release refuses it and keeps its own.

    It may be at an earlier revision than the objects.
    """
    for _ in range(3):
        server.create(CONFIG_MAP)
        server.delete("configmaps", "a")
    server.create(CONFIG_MAP)
    snapshot, stored = server.snapshot(), server.get("configmaps", "a")
    server.reset()
    with Server() as other, Server(emulated_version="1.36") as older:
        other.restore(snapshot)
        assert other.get("configmaps", "a") == stored
        assert int(other.update({**stored, "data": {}})["metadata"]["resourceVersion"]) > snapshot.store.revision
        with pytest.raises(ValueError, match=r"^a snapshot of 1\.\d+ is not restored to 1\.36$"):
            older.restore(snapshot)
        assert len(older.list("namespaces")) == 4
