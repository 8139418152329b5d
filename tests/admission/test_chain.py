"""The chain of admission plugins: what they are asked about, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.admission.chain import Attributes, Chain, Operation, Point
from understudy.admission.plugins import ordered
from understudy.admission.plugins.ordered import all_ordered_plugins
from understudy.kinds.context import Context
from understudy.machinery.errors import forbidden
from understudy.machinery.types import Obj

PODS, DEPLOYMENTS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"
SPEC = {"containers": [{"name": "c", "image": "i"}]}


class Recorder:
    """Notes what it is asked, labels what it may edit, and refuses objects called "refused"."""

    name = "AlwaysAdmit"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, str]] = []

    def handles(self, point: Point) -> bool:
        return True

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        point = attributes.point
        resource = f"{point.resource}/{point.subresource}" if point.subresource else point.resource
        self.asked.append((point.operation, attributes.kind.kind, resource, attributes.name))
        if attributes.object is not None:
            labels = attributes.object["metadata"].get("labels") or {}
            attributes.object["metadata"]["labels"] = {**labels, "seen": point.operation.lower()}

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        if attributes.name == "refused":
            raise forbidden("", attributes.point.resource, attributes.name, "no")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(ordered, "new_chain", lambda *_: Chain([recorder]))
    with Server() as running:
        yield running


def pod(name: str) -> Obj:
    return {"metadata": {"name": name}, "spec": SPEC}


def deployment(name: str) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}


@pytest.mark.parametrize(
    ("method", "path", "body", "asked"),
    [
        ("POST", PODS, pod("new"), ("CREATE", "Pod", "pods", "new")),
        ("PUT", f"{PODS}/x", pod("x"), ("UPDATE", "Pod", "pods", "x")),
        ("DELETE", f"{PODS}/x", None, ("DELETE", "Pod", "pods", "x")),
        ("DELETE", PODS, None, ("DELETE", "Pod", "pods", "")),
        ("POST", f"{PODS}/x/exec", None, ("CONNECT", "PodExecOptions", "pods/exec", "x")),
        (
            "POST",
            f"{PODS}/x/binding",
            {"metadata": {"name": "x"}, "target": {"name": "n"}},
            ("CREATE", "Binding", "pods/binding", "x"),
        ),
        ("POST", f"{PODS}/x/eviction", {"metadata": {"name": "x"}}, ("CREATE", "Eviction", "pods/eviction", "x")),
        (
            "PUT",
            f"{DEPLOYMENTS}/d/scale",
            {"metadata": {"name": "d"}, "spec": {"replicas": 2}},
            ("UPDATE", "Scale", "deployments/scale", "d"),
        ),
    ],
)
def test_what_plugins_are_asked(
    server: Server, recorder: Recorder, method: str, path: str, body: Obj | None, asked: tuple[str, str, str, str]
) -> None:
    """Every request that changes or connects is asked about, with the kind of its body; the deletion of a pod once
    before the pod is marked as deleted and once before it goes."""
    assert send(server, "POST", PODS, pod("x")).status == 201
    assert send(server, "POST", DEPLOYMENTS, deployment("d")).status == 201
    recorder.asked.clear()
    send(server, method, path, body)
    assert recorder.asked == [asked] * (2 if method == "DELETE" else 1)


def test_objects_are_edited_and_refused(server: Server) -> None:
    """Mutating admission edits what is stored, not what was stored; validating admission refuses."""
    assert send(server, "POST", PODS, pod("x")).json()["metadata"]["labels"] == {"seen": "create"}
    old = send(server, "GET", f"{PODS}/x").json()
    changed = send(server, "PUT", f"{PODS}/x", old).json()
    assert changed["metadata"]["labels"] == {"seen": "update"}
    refused = send(server, "POST", PODS, pod("refused"))
    assert (refused.status, refused.json()["message"]) == (403, 'pods "refused" is forbidden: no')
    assert send(server, "GET", f"{PODS}/refused").status == 404


def test_a_plugin_that_is_off() -> None:
    """A plugin that is disabled adds nothing."""
    with Server(disable_admission_plugins=["DefaultTolerationSeconds"]) as running:
        created = send(running, "POST", PODS, pod("x")).json()
        assert "tolerations" not in created["spec"]
        assert created["spec"]["priority"] == 0


def test_requests_that_no_plugin_handles() -> None:
    """A kind of request that no plugin handles has an empty admission."""
    chain = Server(emulated_version=str(NEWEST)).state.chain
    names = [plugin.name for plugin in chain.plugins]
    assert names == sorted(names, key=all_ordered_plugins(NEWEST).index)
    assert chain.of(Point(Operation.CREATE, "storage.k8s.io", "storageclasses", namespaced=False)).is_empty
    assert chain.of(Point(Operation.UPDATE, "", "configmaps")).is_empty
    assert chain.of(Point(Operation.CONNECT, "", "pods", "exec")).is_empty
