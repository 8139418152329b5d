"""The reasons of plugins against nodes, in kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.objects import container, node, node_obj, pod
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, node_changes
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from understudy.controlplane.scheduler.plugins.default_preemption import DefaultPreemption
from understudy.controlplane.scheduler.plugins.defaults import default_plugins
from understudy.controlplane.scheduler.plugins.node_affinity import NodeAffinity
from understudy.controlplane.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from understudy.controlplane.scheduler.plugins.node_ports import NodePorts
from understudy.controlplane.scheduler.plugins.node_resources import Fit
from understudy.controlplane.scheduler.plugins.node_unschedulable import NodeUnschedulable
from understudy.controlplane.scheduler.plugins.taint_toleration import TaintToleration
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, V1_35, V1_36, V1_37, Version
from understudy.machinery.types import Obj

RED = {"key": "red", "value": "v", "effect": "NoSchedule"}
BLUE = {"key": "blue", "effect": "NoExecute"}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
HTTP = container(ports=[{"containerPort": 80, "hostPort": 8080}])
LOCAL = container(ports=[{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}])
CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
HAS_Z = {"matchExpressions": [{"key": "z", "operator": "Exists"}]}
BUSY = pod("q", containers=[container(cpu="3", memory="1")])
NUMBER = {"key": "n", "value": "5", "effect": "NoSchedule"}


def no_class(resource: str) -> str | None:
    """Provide no extended resource by a class."""
    return None


def framework(release: Version, **gates: bool) -> Framework:
    """Return all plugins of a release."""
    on = Gates.of(release, gates)
    devices = Devices(release, on)
    return Framework(default_plugins(release, on, NodeCache(), ClaimTracker(devices.allocated), devices))


def reasons(release: Version, pod: PodInfo, node: NodeInfo, **gates: bool) -> list[str]:
    """Return the reasons against a node for a pod."""
    plugins, state = framework(release, **gates), CycleState()
    status, names = plugins.pre_filter(state, pod)
    if status is None and (names is None or node.name in names):
        status = plugins.filter(state, pod, node)
    return list(status.reasons) if status else []


def required(*terms: Obj) -> Obj:
    """Return an affinity that requires one of some terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def named(*names: str) -> Obj:
    """Return a term that a node of each of these names would have to meet."""
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINT = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        (pod(), node(), []),
        (pod(), node(unschedulable=True), ["node(s) were unschedulable"]),
        (pod(tolerations=[CORDONED]), node(unschedulable=True), []),
        (pod(nodeName="m"), node(), ["node(s) didn't match the requested node name"]),
        (pod(), node(taints=[SOFT]), []),
        (pod(), node(taints=[SOFT, RED]), [TAINT]),
        (pod(), node(taints=[BLUE]), [TAINT]),
        (pod(tolerations=[{"key": "red", "value": "v"}]), node(taints=[RED]), []),
        (pod(tolerations=[{"key": "red", "value": "w"}]), node(taints=[RED]), [TAINT]),
        (pod(tolerations=[{"key": "red", "value": "v", "effect": "NoExecute"}]), node(taints=[RED]), [TAINT]),
        (pod(tolerations=[{"key": "red", "value": "v"}]), node(taints=[RED, BLUE]), [TAINT]),
        (pod(tolerations=[{"operator": "Exists"}]), node(taints=[RED, BLUE]), []),
        (pod(tolerations=[{"key": "n", "operator": "Gt", "value": "4"}]), node(taints=[NUMBER]), [TAINT]),
        (pod(nodeSelector={"zone": "a"}), node(labels={"zone": "a"}), []),
        (pod(nodeSelector={"zone": "a"}), node(labels={"zone": "b"}), [AFFINITY]),
        (pod(affinity=required(HAS_Z)), node(), [AFFINITY]),
        (pod(affinity=required({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]})), node(), []),
        (pod(affinity=required(named("m"), HAS_Z)), node(), [AFFINITY]),
        (pod(affinity=required({})), node(), [AFFINITY]),
        (pod(affinity=required(named("n", "m"))), node(), ["pod affinity terms conflict"]),
        (pod(containers=[HTTP]), node(pod("q", containers=[HTTP])), [PORTS]),
        (pod(containers=[LOCAL]), node(pod("q", containers=[HTTP])), [PORTS]),
        (pod(containers=[HTTP]), node(pod("q")), []),
        (pod(containers=[container(cpu="4")]), node(), []),
        (pod(containers=[container(cpu="4001m")]), node(), ["Insufficient cpu"]),
        (pod(containers=[container(cpu="2", memory="8Gi")]), node(BUSY), ["Insufficient cpu", "Insufficient memory"]),
        (pod(containers=[container(ephemeral_storage="11Gi")]), node(), ["Insufficient ephemeral-storage"]),
        (pod(containers=[container(**{"example.com/gpu": "1"})]), node(), ["Insufficient example.com/gpu"]),
        (pod(), node(pod("q"), allocatable={"pods": "1"}), ["Too many pods"]),
        (pod(containers=[container(cpu="5")]), node(allocatable={"pods": "0"}), ["Too many pods", "Insufficient cpu"]),
    ],
)  # fmt: skip
def test_reasons_against_a_node(pod: PodInfo, node: NodeInfo, expected: list[str]) -> None:
    """The first plugin that turns a node down says why; only room is complained of in several ways."""
    assert reasons(V1_36, pod, node) == expected


def test_node_that_is_not_named_is_not_looked_at() -> None:
    """Only the nodes that all terms name are candidates; a term without a name makes candidates of all."""
    affinity = NodeAffinity()
    assert affinity.pre_filter(CycleState(), pod(affinity=required(named("a"), named("b")))) == frozenset({"a", "b"})
    assert affinity.pre_filter(CycleState(), pod(affinity=required(named("a"), {}))) is None


@pytest.mark.parametrize(
    ("release", "text"),
    [(V1_33, "node(s) had untolerated taint {red: v}"), (V1_34, TAINT)],
)
def test_words_about_taints_change(release: Version, text: str) -> None:
    """Up to 1.33 the taint is named, so that nodes with different taints are counted apart."""
    assert reasons(release, pod(), node(taints=[RED])) == [text]


RESTARTING: Obj = {"containers": [container() | {"restartPolicyRules": [{"action": "RestartAllContainers"}]}]}
OPTIONS = container() | {"volumeMounts": [{"name": "v", "bindMountOptions": ["nosuid"]}]}
FEATURES = "node(s) didn't match Pod's required features"
MISSING = "node declared features check failed - unsatisfied requirements: "
ALL = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    ("release", "spec", "declared", "expected"),
    [
        (V1_36, RESTARTING, [], [FEATURES]),
        (V1_36, RESTARTING, [ALL], []),
        (V1_36, {"hostNetwork": True, "hostUsers": False}, [ALL], [FEATURES]),
        (V1_36, {"hostNetwork": True, "hostUsers": True}, [], []),
        (V1_36, {"initContainers": [OPTIONS]}, [], []),
        (V1_37, {"initContainers": [OPTIONS]}, [], [FEATURES]),
        (V1_37, {"initContainers": [OPTIONS]}, ["VolumeBindMountOptions"], []),
        (V1_35, {**RESTARTING, "hostNetwork": True, "hostUsers": False}, [],
         [f"{MISSING}{ALL}, UserNamespacesHostNetworkSupport"]),
    ],
)  # fmt: skip
def test_features_that_pods_need_of_kubelets(
    release: Version, spec: Obj, declared: list[str], expected: object
) -> None:
    """A node has to declare them; 1.35 names those that it lacks."""
    info = node()
    info.obj["status"]["declaredFeatures"] = declared
    assert reasons(release, pod(**spec), info, NodeDeclaredFeatures=True) == expected


def test_declared_features_wake_pods() -> None:
    """A change of a node's features is an event of its own."""
    old, new = node_obj(), node_obj()
    new["status"]["declaredFeatures"] = [ALL]
    [event] = node_changes(old, new)
    plugin = NodeDeclaredFeatures(V1_37)
    assert event.trigger in plugin.triggers
    assert plugin.is_schedulable_after(pod(**RESTARTING), event)
    assert not plugin.is_schedulable_after(pod(**RESTARTING), changed({}, {}))


def test_comparing_tolerations_need_their_gate() -> None:
    """A toleration with Gt tolerates greater numbers, with TaintTolerationComparisonOperators."""
    tolerating = pod(tolerations=[{"key": "n", "operator": "Gt", "value": "4"}])
    assert reasons(V1_36, tolerating, node(taints=[NUMBER]), TaintTolerationComparisonOperators=True) == []
    strict = pod(tolerations=[{"key": "n", "operator": "Gt", "value": "5"}])
    assert reasons(V1_36, strict, node(taints=[NUMBER]), TaintTolerationComparisonOperators=True) == [TAINT]


@pytest.mark.parametrize(
    ("release", "cpu", "code"),
    [
        (V1_33, "5", Code.UNSCHEDULABLE),
        (V1_34, "5", Code.UNRESOLVABLE),
        (V1_34, "2", Code.UNSCHEDULABLE),
    ],
)
def test_node_that_is_too_small_is_hopeless(release: Version, cpu: str, code: Code) -> None:
    """From 1.34 on preemption does not look at nodes that could not take the pod if they were empty."""
    busy = node(pod("q", containers=[container(cpu="3")]))
    status = Fit(release, no_class).filter(CycleState(), pod(containers=[container(cpu=cpu)]), busy)
    assert status is not None
    assert status.code is code


NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ({"a": unresolvable("x")}, f"2 {NOT_HELPFUL}."),
        ({}, f"2 {NOT_HELPFUL}."),
        ({"a": unschedulable("x"), "b": unresolvable("x")}, f"1 {NO_VICTIMS}, 1 {NOT_HELPFUL}."),
    ],
)
def test_words_about_preemption(nodes: dict[str, Status], text: str) -> None:
    """Nodes on which other pods are in the way have no victims; on others preemption would not help."""
    cache = NodeCache()
    for name in ("a", "b"):
        cache.set_node(node_obj(name))
    status = DefaultPreemption(cache).post_filter(CycleState(), pod(), nodes)
    assert status.message == f"preemption: 0/2 nodes are available: {text}"
    never = DefaultPreemption(cache).post_filter(CycleState(), pod(preemptionPolicy="Never"), nodes)
    assert never.message == "preemption: not eligible due to preemptionPolicy=Never."


def added(**spec: Any) -> ClusterEvent:
    return ClusterEvent(Kind.NODE, Action.ADD, None, node_obj(**spec))


def changed(old: Obj, new: Obj) -> ClusterEvent:
    return ClusterEvent(Kind.NODE, Action.UPDATE, node_obj(**old), node_obj(**new))


def gone(**spec: Any) -> ClusterEvent:
    return ClusterEvent(Kind.POD, Action.DELETE, pod("gone", **spec).obj)


def tolerating(name: str) -> ClusterEvent:
    new = pod(name, tolerations=[{"operator": "Exists"}]).obj
    return ClusterEvent(Kind.POD, Action.UPDATE_TOLERATIONS, pod(name).obj, new)


GATES = Gates.of(V1_36)
LARGE = pod(containers=[container(cpu="6")])


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "helps"),
    [
        (NodeUnschedulable(GATES), pod(), added(), True),
        (NodeUnschedulable(GATES), pod(), added(unschedulable=True), False),
        (NodeUnschedulable(GATES), pod(), changed({"taints": [RED]}, {"taints": [BLUE]}), False),
        (NodeUnschedulable(GATES), pod(), changed({"unschedulable": True}, {}), True),
        (NodeUnschedulable(GATES), pod(), tolerating("p"), True),
        (NodeUnschedulable(GATES), pod(), tolerating("q"), False),
        (TaintToleration(V1_36, GATES), pod(), tolerating("p"), True),
        (TaintToleration(V1_36, GATES), pod(), tolerating("q"), False),
        (TaintToleration(V1_36, GATES), pod(), added(), True),
        (TaintToleration(V1_36, GATES), pod(), added(taints=[RED]), False),
        (TaintToleration(V1_36, GATES), pod(), changed({"taints": [RED, BLUE]}, {"taints": [BLUE]}), False),
        (TaintToleration(V1_36, GATES), pod(), changed({"taints": [RED]}, {}), True),
        (TaintToleration(V1_36, GATES), pod(), changed({"taints": [SOFT]}, {}), False),
        (NodeAffinity(), pod(nodeSelector={"z": "a"}), added(labels={"z": "b"}), False),
        (NodeAffinity(), pod(nodeSelector={"z": "a"}), changed({"labels": {"z": "b"}}, {"labels": {"z": "a"}}), True),
        (NodeAffinity(), pod(nodeSelector={"z": "a"}), changed({"labels": {"z": "a"}}, {"labels": {"z": "a"}}), False),
        (NodePorts(), pod(containers=[HTTP]), gone(containers=[LOCAL]), True),
        (NodePorts(), pod(containers=[HTTP]), gone(), False),
        (NodePorts(), pod(containers=[HTTP]), added(), True),
        (Fit(V1_36, no_class), LARGE, gone(), True),
        (Fit(V1_36, no_class), LARGE, added(), False),
        (Fit(V1_36, no_class), LARGE, added(allocatable={"cpu": "6"}), True),
        (Fit(V1_36, no_class), LARGE, changed({"allocatable": {"cpu": "7"}}, {"allocatable": {"cpu": "6"}}), False),
        (Fit(V1_36, no_class), LARGE, changed({}, {"allocatable": {"cpu": "6"}}), True),
    ],
)  # fmt: skip
def test_events_that_may_help(plugin: Any, pod: PodInfo, event: ClusterEvent, helps: bool) -> None:
    """A pod is looked at again only if what it was turned down for is better now."""
    assert plugin.is_schedulable_after(pod, event) is helps
