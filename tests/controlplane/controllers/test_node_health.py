"""Nodes that are silent: their conditions, their taints, and the end of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

UNREACHABLE = "node.kubernetes.io/unreachable"
READY = {"type": "Ready", "status": "True"}
pytestmark = pytest.mark.apiserver(controllers=["node-lifecycle", "taint-eviction"])


def node(server: Server, name: str, status: str = "True") -> None:
    obj: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    server.create({**obj, "status": {"conditions": [{"type": "Ready", "status": status}]}})


def renew(server: Server, name: str) -> None:
    """Send a heartbeat, as a kubelet does."""
    now = server.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease: Obj = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    metadata = {"name": name, "namespace": "kube-node-lease"}
    server.apply({**lease, "metadata": metadata, "spec": {"holderIdentity": name, "renewTime": now}})


def taints(server: Server, name: str) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in server.get("node", name)["spec"].get("taints") or ()}


def ready(server: Server, name: str) -> Any:
    conditions = {condition["type"]: condition for condition in server.get("node", name)["status"]["conditions"]}
    return conditions["Ready"]


def messages(server: Server) -> list[str]:
    """Return the messages of the events about evictions."""
    return [event["message"] for event in server.list("events", fields="reason=TaintManagerEviction")]


def events_of_nodes(server: Server) -> list[tuple[str, str, str, str]]:
    """Return kind, name, reason and message of the events that the controller of nodes has recorded."""
    own = [event for event in server.list("events") if event["source"] == {"component": "node-controller"}]
    about = [(event["involvedObject"], event) for event in own]
    return sorted((each["kind"], each["name"], event["reason"], event["message"]) for each, event in about)


def pod(name: str, node_name: str, **spec: Any) -> Obj:
    containers = [{"name": "main", "image": "example.com/main"}]
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node_name, "terminationGracePeriodSeconds": 0, "containers": containers, **spec},
    }


def test_silent_node_loses_its_pods(apiserver: Server) -> None:
    """After 50 seconds it is unreachable, and 300 later the pods that do not tolerate it for longer are evicted."""
    apiserver.clock.freeze()
    node(apiserver, "silent")
    node(apiserver, "without-kubelet")
    renew(apiserver, "silent")
    forever = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    apiserver.create(pod("stays", "silent", tolerations=[forever]))
    apiserver.create(pod("goes", "silent"))
    apiserver.create(pod("elsewhere", "without-kubelet"))
    wait_until(lambda: not taints(apiserver, "silent"))
    apiserver.clock.advance(seconds=49)
    assert ready(apiserver, "silent")["status"] == "True"
    apiserver.clock.advance(seconds=2)
    assert ready(apiserver, "silent")["reason"] == "NodeStatusUnknown"
    assert taints(apiserver, "silent") == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert (ready(apiserver, "without-kubelet")["status"], taints(apiserver, "without-kubelet")) == ("True", set())
    apiserver.clock.advance(seconds=298)
    assert len(apiserver.list("pods")) == 3
    apiserver.clock.advance(seconds=3)
    wait_until(lambda: sorted(each["metadata"]["name"] for each in apiserver.list("pods")) == ["elsewhere", "stays"])
    wait_until(lambda: messages(apiserver) == ["Marking for deletion Pod default/goes"])


def test_pods_of_silent_node_are_not_ready(apiserver: Server) -> None:
    """Pods on a node that became silent are not ready any more; nodes that come, go or become silent have events."""
    apiserver.clock.freeze()
    for name in ("silent", "other"):
        node(apiserver, name)
        renew(apiserver, name)
        ready_now = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}, READY]}}
        apiserver.create(pod(f"on-{name}", name))
        apiserver.patch("pod", f"on-{name}", ready_now, subresource="status")
    wait_until(lambda: not taints(apiserver, "other") and not taints(apiserver, "silent"))
    apiserver.clock.advance(seconds=40)
    renew(apiserver, "other")
    apiserver.clock.advance(seconds=20)

    def statuses(name: str) -> dict[str, str]:
        return {each["type"]: each["status"] for each in apiserver.get("pod", name)["status"]["conditions"]}

    wait_until(lambda: statuses("on-silent") == {"PodScheduled": "True", "Ready": "False"})
    assert statuses("on-other") == {"PodScheduled": "True", "Ready": "True"}
    apiserver.delete("node", "other")
    told = [
        ("Node", "other", "RegisteredNode", "Node other event: Registered Node other in Controller"),
        ("Node", "other", "RemovingNode", "Node other event: Removing Node other from Controller"),
        ("Node", "silent", "NodeNotReady", "Node silent status is now: NodeNotReady"),
        ("Node", "silent", "RegisteredNode", "Node silent event: Registered Node silent in Controller"),
        ("Pod", "on-silent", "NodeNotReady", "Node is not ready"),
    ]
    wait_until(lambda: events_of_nodes(apiserver) == told)


def test_node_that_is_back_keeps_its_pods(apiserver: Server) -> None:
    """With a heartbeat and a status of its kubelet the taints go, and the evictions are given up."""
    apiserver.clock.freeze()
    node(apiserver, "silent")
    node(apiserver, "other")
    renew(apiserver, "silent")
    apiserver.create(pod("p", "silent"))
    apiserver.clock.advance(seconds=200)
    assert (UNREACHABLE, "NoExecute") in taints(apiserver, "silent")
    renew(apiserver, "silent")
    back = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    apiserver.patch("node", "silent", back, subresource="status")
    wait_until(lambda: not taints(apiserver, "silent"))
    apiserver.clock.advance(seconds=40)
    renew(apiserver, "silent")
    apiserver.clock.advance(seconds=40)
    assert ready(apiserver, "silent")["status"] == "True"
    assert [each["metadata"]["name"] for each in apiserver.list("pods")] == ["p"]
    wait_until(lambda: messages(apiserver) == ["Cancelling deletion of Pod default/p"])


def test_first_plan_stays(apiserver: Server) -> None:
    """A second taint that a pod tolerates for less changes no plan; one that it does not tolerate evicts it at once."""
    apiserver.clock.freeze()
    node(apiserver, "n")

    def taint(*keys: str) -> None:
        added = [{"key": key, "effect": "NoExecute"} for key in keys]
        apiserver.patch("node", "n", {"spec": {"taints": added}})

    def pods() -> list[str]:
        return [each["metadata"]["name"] for each in apiserver.list("pods")]

    first, second = (
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key, seconds in (("a", 300), ("b", 4))
    )
    apiserver.create(pod("both", "n", tolerations=[first, second]))
    apiserver.create(pod("first", "n", tolerations=[first]))
    apiserver.create(pod("none", "n"))
    taint("a")
    wait_until(lambda: pods() == ["both", "first"])
    taint("a", "b")
    wait_until(lambda: pods() == ["both"])
    apiserver.clock.advance(seconds=290)
    apiserver.create(pod("later", "n"))
    wait_until(lambda: pods() == ["both"])
    marked = [f"Marking for deletion Pod default/{name}" for name in ("first", "later", "none")]
    wait_until(lambda: sorted(messages(apiserver)) == ["Cancelling deletion of Pod default/first", *marked])
    apiserver.clock.advance(seconds=10)
    wait_until(lambda: not pods())


def test_no_pod_goes_when_no_node_is_ready(apiserver: Server) -> None:
    """The network is at fault where all nodes are silent: none is tainted so that its pods go."""
    apiserver.clock.freeze()
    for name in "ab":
        node(apiserver, name)
        renew(apiserver, name)
    apiserver.create(pod("p", "a"))
    apiserver.clock.advance(minutes=10)
    assert [ready(apiserver, name)["status"] for name in "ab"] == ["Unknown"] * 2
    assert taints(apiserver, "a") == taints(apiserver, "b") == {(UNREACHABLE, "NoSchedule")}
    assert len(apiserver.list("pods")) == 1
