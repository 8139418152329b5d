"""Groups of pods, in memory, with kube-scheduler's words (`python -m scripts.compare schedulers --about groups`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.cluster import Cluster
from tests.controlplane.scheduler.objects import (
    allocated,
    claim,
    container,
    node_obj,
    pod,
)
from understudy.controlplane.client.pod_claims import consumer_of, is_reserved_for
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import error, unschedulable
from understudy.controlplane.scheduler.group_cycle import GroupOutcome
from understudy.controlplane.scheduler.plugins.dynamicresources import dynamic_resources
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import ClaimsState, GroupClaims
from understudy.controlplane.scheduler.plugins.gang_scheduling import GangScheduling
from understudy.controlplane.scheduler.pod_groups import PodGroups
from understudy.controlplane.scheduler.queue import SchedulingQueue
from understudy.controlplane.scheduler.queued import Entity, Place, QueuedPod
from understudy.machinery.types import Obj

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NOT_FOUND = 'error in "DynamicResources" PodGroupPostFilter plugins: not found'
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def group(at_least: int = 0, *claims: str, name: str = "g", version: int = 1, **spec: Any) -> Obj:
    """Return a gang of some pods at least, or a group without conditions for 0, that uses claims."""
    policy: Obj = {"gang": {"minCount": at_least}} if at_least else {"basic": {}}
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"schedulingPolicy": policy, "resourceClaims": entries, **spec}}


def member(name: str, *claims: str, cpu: str = "1", **spec: Any) -> PodInfo:
    """Return a pod of the group `g` that uses claims."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    containers = [container(cpu=cpu)]
    return pod(name, containers=containers, resourceClaims=entries, schedulingGroup={"podGroupName": "g"}, **spec)


def reasons(outcome: GroupOutcome) -> dict[str, str]:
    """Return the messages about the pods that get no node, by name."""
    return {failure.pod.name: failure.message for failure in outcome.failures}


def bound(outcome: GroupOutcome) -> list[str]:
    """Return the names of the pods that get a node."""
    return [placement.pod.name for placement in outcome.placements]


def test_gang_that_fits_is_placed_at_once() -> None:
    """All pods get nodes; those before the one that completes the gang have waited for it."""
    outcome = Cluster("n").schedule(group(2), member("a"), member("b"), member("c"))
    assert outcome.status is None
    waits = [(placement.pod.name, placement.has_waited) for placement in outcome.placements]
    assert waits == [("a", True), ("b", False), ("c", False)]


@pytest.mark.parametrize(
    ("nodes", "at_least", "cpus", "status", "said"),
    [
        (
            ["n"],
            2,
            ["3", "3"],
            unschedulable("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining", NO_VICTIMS),
            [
                "pod group is unschedulable, minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, " + NO_VICTIMS,
                NO_ROOM,
            ],
        ),
        (
            ["n"],
            3,
            ["9", "1", "1"],
            unschedulable("minCount (3) cannot be satisfied: 0 scheduled, 2 remaining", NO_VICTIMS),
            [NO_ROOM, *["minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"] * 2],
        ),
        (["n"], 2, ["1"], error(NOT_FOUND), [NOT_FOUND]),  # no pod was looked at
        ([], 2, ["1", "1"], error(NOT_FOUND), [NOT_FOUND, NOT_FOUND]),
        (
            ["n"],
            0,
            ["9"],
            unschedulable("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining", NO_VICTIMS),
            [NO_ROOM],
        ),
    ],
)
def test_words_about_a_group_that_does_not_fit(
    nodes: list[str], at_least: int, cpus: list[str], status: object, said: list[str]
) -> None:
    """Group and pods have each their own reason, and nothing is taken."""
    cluster = Cluster(*nodes)
    outcome = cluster.schedule(group(at_least), *(member(f"p{i}", cpu=cpu) for i, cpu in enumerate(cpus)))
    assert (outcome.status, list(reasons(outcome).values())) == (status, said)
    assert outcome.placements == []
    assert [node.pods for node in cluster.cache.nodes.values()] == [{}] * len(nodes)


def test_pods_beyond_the_minimum_wait_alone() -> None:
    """A gang with enough pods is scheduled; for the others of it there may be no room."""
    cluster = Cluster("n")
    outcome = cluster.schedule(group(1), member("a", cpu="3"), member("b", cpu="3"))
    assert (outcome.status, bound(outcome), reasons(outcome)) == (None, ["a"], {"b": NO_ROOM})
    again = cluster.schedule(group(1), member("b", cpu="3"))
    assert again.status == unschedulable("pod group is unschedulable", NO_VICTIMS)
    assert reasons(again) == {"b": NO_ROOM}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"priority": 7}, "priority as the pod group's priority, got 7 and 0"),
        ({"preemptionPolicy": "Never"}, "preemption policy, got Never and PreemptLowerPriority"),
        ({"schedulerName": "mine"}, '.spec.schedulerName set, got: "mine" and ""'),
    ],
)
def test_pod_that_does_not_go_with_its_group(spec: Obj, text: str) -> None:
    """Pods of a group have one scheduler, one preemption policy and the priority of the group."""
    outcome = Cluster("n").schedule(group(), member("a"), member("b", **spec))
    text = f"all pods in a single pod group should have the same {text}"
    assert outcome.status == error(text)
    assert reasons(outcome) == {"a": text, "b": text}


def test_group_that_may_not_preempt() -> None:
    """The remedies of all plugins are told if none says that there is no hope."""
    pods = [member(name, cpu="3", preemptionPolicy="Never") for name in "ab"]
    status = Cluster("n").schedule(group(2), *pods).status
    assert status is not None
    assert status.reasons[1] == (
        "deallocation and deletion of ResourceClaims completed, "
        "pod group preemption: not eligible due to preemptionPolicy=Never."
    )


@pytest.mark.parametrize("of_group", [True, False])
def test_pods_of_a_gang_share_the_devices_of_a_claim(of_group: bool) -> None:
    """The second pod takes the allocation of the first, which ends for both once it is written."""
    cluster = Cluster("n")
    cluster.claims.put(claim("c"))
    outcome = cluster.schedule(group(2, *(["c"] if of_group else [])), member("a", "c"), member("b", "c"))
    states: list[ClaimsState] = [placement.state.data[dynamic_resources.NAME] for placement in outcome.placements]
    first, second = (state.allocations[0]["devices"]["results"] for state in states)
    assert first == second
    users = [state.consumers[0]["name"] for state in states]
    assert users == (["g", "g"] if of_group else ["a", "b"])
    assert cluster.claims.is_pending("uid-c")
    cluster.scheduler.give_back(outcome.placements[0])
    assert cluster.claims.is_pending("uid-c")
    cluster.scheduler.give_back(outcome.placements[1])
    assert not cluster.claims.is_pending("uid-c")


def test_pods_outside_the_group_wait_for_a_pending_claim() -> None:
    """An allocation that is not written yet is shared within one attempt for a group only."""
    cluster = Cluster("n")
    cluster.claims.put(claim("c"))
    assert bound(cluster.schedule(group(0, "c"), member("a", "c"))) == ["a"]
    later = cluster.schedule(group(0, "c"), member("b", "c"))
    said = "0/1 nodes are available: resource claim default/c is in the process of being allocated."
    assert reasons(later) == {"b": said}


RESERVED = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}]


def test_claim_of_a_group_elsewhere_is_freed() -> None:
    """A claim is freed that is reserved for the group only and whose device is of a node where the pod cannot go."""
    cluster = Cluster("n", "m")
    cluster.claims.put(claim("c", status={**allocated("dev-0", on="n"), "reservedFor": RESERVED}))
    outcome = cluster.schedule(group(1, "c"), member("a", "c", nodeSelector={"zone": "b"}))
    together: GroupClaims = outcome.state[dynamic_resources.NAME]
    assert together.deallocate is None  # no node was asked about the claim
    cluster.cache.set_node(node_obj("m", labels={"zone": "b"}))
    outcome = cluster.schedule(group(1, "c"), member("a", "c", nodeSelector={"zone": "b"}))
    together = outcome.state[dynamic_resources.NAME]
    assert together.deallocate is not None
    assert outcome.status == unschedulable("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining", NO_VICTIMS)


def test_reservation_of_a_group_is_taken_back() -> None:
    """A group none of whose pods has a node gives its reservation back, since its devices may be what is wrong."""
    cluster = Cluster("n")
    cluster.claims.put(claim("c", status={**allocated("dev-0"), "reservedFor": RESERVED}))
    outcome = cluster.schedule(group(1, "c"), member("a", "c", cpu="9"))
    together: GroupClaims = outcome.state[dynamic_resources.NAME]
    assert together.unreserve is not None
    said = ("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining", "ResourceClaim unreserved for PodGroup")
    assert outcome.status == unschedulable(*said)
    cluster.groups.put_pod(member("b", "c", nodeName="n"))
    outcome = cluster.schedule(group(2, "c"), member("a", "c", cpu="9"))
    assert outcome.state[dynamic_resources.NAME].unreserve is None
    cluster = Cluster("n", without="DRAWorkloadResourceClaims")
    cluster.claims.put(claim("c", status={**allocated("dev-0"), "reservedFor": RESERVED}))
    outcome = cluster.schedule(group(1, "c"), member("a", "c", cpu="9"))
    assert outcome.state[dynamic_resources.NAME].unreserve is None


# --- the queue


class Waiting:
    """A queue with the plugins of a cluster, and seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.cluster = Cluster("n")
        self.now = 1000.0
        plugins, groups = self.cluster.plugins, self.cluster.groups
        self.queue = SchedulingQueue(plugins, lambda: self.now, pops_from_backoff=True, has_hints=True, groups=groups)

    def add(self, *pods: PodInfo) -> None:
        """Create pods, as the component does."""
        for each in pods:
            self.cluster.groups.put_pod(each)
            self.queue.add(each)
            self.queue.move([ClusterEvent(Kind.POD, Action.ADD, None, each.obj)])

    def put(self, group: Obj, old: Obj | None = None) -> None:
        """Create or change a group."""
        self.cluster.groups.put(group)
        self.queue.move([ClusterEvent(Kind.POD_GROUP, Action.UPDATE if old else Action.ADD, old, group)])

    def next(self) -> list[str]:
        """Return the names of the pods to look at together, [] if none are to be looked at now."""
        entity = self.queue.pop()
        return [member.pod.name for member in entity.members] if entity else []


def test_gang_is_looked_at_when_it_is_complete() -> None:
    """Pods wait for their group and for each other, and come together: by priority, then as they came."""
    it = Waiting()
    it.add(member("a"))
    assert it.next() == []
    it.put(group(2))
    assert it.next() == []
    it.add(member("b"))
    assert it.next() == ["a", "b"]


def test_group_that_needs_fewer_pods_is_looked_at() -> None:
    """A gang need not be complete any more when its minimum goes down; a higher one is no help."""
    it = Waiting()
    it.put(group(3))
    it.add(member("a"), member("b"))
    it.put(group(4, version=2), group(3))
    assert it.next() == []
    it.put(group(2, version=3), group(4, version=2))
    assert it.next() == ["a", "b"]


def test_gated_pod_holds_its_group_back() -> None:
    """No pod of a group is looked at while one has a closed gate."""
    it = Waiting()
    it.put(group())
    gated = member("gated", schedulingGates=[{"name": "example.com/g"}])
    it.add(gated, member("open"))
    assert it.next() == []
    it.queue.update(gated, member("gated"))
    assert it.next() == ["gated", "open"]


def test_failed_group_is_tried_again_after_a_pause() -> None:
    """A group needs no event to be looked at again, but the pause; one with enough nodes needs none."""
    it = Waiting()
    it.put(group(1))
    it.add(member("a"), member("b"))
    entity = it.queue.pop()
    assert entity is not None
    plugins = frozenset({"NodeResourcesFit"})
    it.queue.put_back_group(entity, {"a": plugins, "b": plugins}, unschedulable("no room"))
    assert it.next() == []
    assert it.queue.seconds_to_next() == 1
    it.now += 1
    entity = it.queue.pop()
    assert entity is not None
    it.queue.put_back_group(entity, {"b": plugins}, None)
    assert it.next() == ["b"]


def test_pod_that_could_not_be_bound_waits_with_its_group() -> None:
    """A pod that comes back joins the others of its group, after a pause if there are none."""
    it = Waiting()
    it.put(group(1))
    it.add(member("a"), member("b"))
    entity = it.queue.pop()
    assert entity is not None
    a, b = entity.members
    it.queue.put_back(a, frozenset())
    assert it.queue.place_of("a") is Place.BACKOFF
    it.queue.put_back(b, frozenset())
    it.now += 1
    assert it.next() == ["a", "b"]


def test_deleted_pods_leave_their_group() -> None:
    """The others are still looked at; the last one takes the group out of the queue. Bound pods are gone from it."""
    it = Waiting()
    it.put(group())
    it.add(member("a"), member("b"))
    it.queue.delete("a")
    entity = it.queue.pop()
    assert entity is not None
    assert [each.pod.name for each in entity.members] == ["b"]
    it.queue.delete("b")
    it.queue.put_back_group(entity, {"b": frozenset()}, error("too late"))
    it.now += 400
    assert it.next() == []
    assert it.queue.seconds_to_next() is None


def test_deleted_group_holds_its_pods_back() -> None:
    """Pods wait until there is a group of the name again."""
    it = Waiting()
    it.put(group())
    it.add(member("a"))
    it.cluster.groups.remove(group())
    it.queue.delete_group("default/g")
    assert it.next() == []
    it.put(group())
    assert it.next() == ["a"]


# --- the rules one by one


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (ClusterEvent(Kind.POD, Action.ADD, None, member("b").obj), True),
        (ClusterEvent(Kind.POD, Action.ADD, None, pod("alone").obj), False),
        (ClusterEvent(Kind.POD_GROUP, Action.ADD, None, group(2)), True),
        (ClusterEvent(Kind.POD_GROUP, Action.ADD, None, group(2, name="other")), False),
        (ClusterEvent(Kind.POD_GROUP, Action.UPDATE, group(3), group(2)), True),
        (ClusterEvent(Kind.POD_GROUP, Action.UPDATE, group(2), group(2)), False),
        (ClusterEvent(Kind.POD_GROUP, Action.UPDATE, group(2), group(3)), False),
    ],
)
def test_events_that_may_help_a_gang(event: ClusterEvent, helps: bool) -> None:
    """New pods of the group do, the group itself, and a lower minimum."""
    assert GangScheduling(PodGroups(NodeCache())).is_schedulable_after(member("a"), event) is helps


def test_groups_are_known_by_their_newest_state() -> None:
    """An older state is ignored unless it is of another group of the name; pods that are gone do not count."""
    groups = PodGroups(NodeCache())
    groups.put(group(1, version=5, priority=7))
    groups.put(group(2, version=4))
    assert (groups.get("default/g") or {})["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
    assert groups.priority("default/g") == 7
    replaced = group(3, version=2)
    replaced["metadata"]["uid"] = "new"
    groups.put(replaced)
    groups.remove(group(1, version=5))
    assert groups.get("default/g") is replaced
    for name in "ab":
        groups.put_pod(member(name))
    groups.remove_pod(member("a"))
    assert groups.count("default/g") == 1


def test_pod_with_a_node_has_to_go_with_its_group_too() -> None:
    """Pods that have been scheduled before are looked at as well."""
    cluster = Cluster("n")
    cluster.groups.put_pod(member("before", nodeName="n", preemptionPolicy="Never"))
    said = "all pods in a single pod group should have the same preemption policy, got Never and PreemptLowerPriority"
    assert cluster.schedule(group(), member("a")).status == error(said)


def test_pod_that_completes_a_gang_does_not_wait() -> None:
    """Pods that have been scheduled before count."""
    cluster = Cluster("n")
    cluster.groups.put_pod(member("before", nodeName="n"))
    assert [placement.has_waited for placement in cluster.schedule(group(2), member("a")).placements] == [False]


def test_error_about_a_pod_ends_the_attempt() -> None:
    """Something is wrong with a pod: the others of its group are told so, those before it and those behind."""
    cluster = Cluster("n")
    wrong = allocated("dev-0")
    term = {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}
    wrong["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    cluster.claims.put(claim("c", status=wrong))
    outcome = cluster.schedule(group(1), member("a"), member("b", "c"), member("d"))
    assert outcome.status is not None
    said = reasons(outcome)
    assert said["b"].startswith('running PreFilter plugin "DynamicResources": ')
    text = f"failed to schedule other pod from a pod group: {said['b']}"
    assert (outcome.status, said["a"], said["d"]) == (error(text), text, text)


def test_pauses_of_a_group() -> None:
    """Pauses double while the group is turned down or something goes wrong; one outcome ends the row of the other."""
    it = Waiting()
    it.put(group(1))
    it.add(member("a"))
    pauses = []
    for status in (unschedulable("no"), unschedulable("no"), error("e"), error("e"), unschedulable("no")):
        entity = it.queue.pop()
        assert entity is not None
        it.queue.put_back_group(entity, {"a": frozenset()}, status)
        pause = it.queue.seconds_to_next()
        assert pause is not None
        pauses.append(pause)
        it.now += pause
    assert pauses == [1, 2, 1, 2, 4]


def test_place_of_a_group_in_the_queue() -> None:
    """The priority of the group counts; the rest of a group that was scheduled keeps its place."""
    it = Waiting()
    it.add(pod("alone"))
    it.put(group(1, priority=7))
    it.add(member("a"), member("b"))
    entity = it.queue.pop()
    assert entity is not None
    assert [each.pod.name for each in entity.members] == ["a", "b"]
    it.cluster.groups.put(group(1, version=2))
    assert it.next() == ["alone"]
    it.now += 5
    it.add(pod("later"))
    it.queue.put_back_group(entity, {"b": frozenset()}, None)
    assert it.next() == ["b"]


def test_gated_pod_that_joins_holds_a_group_back() -> None:
    """A group that could be looked at is held back, and further pods and other events leave it alone."""
    it = Waiting()
    it.put(group())
    it.add(member("open"))
    it.add(member("gated", schedulingGates=[{"name": "example.com/g"}]))
    assert it.next() == []
    it.now += 100
    it.queue.add(member("third"))
    assert it.queue.seconds_to_next() == 200
    assert not it.queue.move([ClusterEvent(Kind.NODE, Action.ADD, None, node_obj("new"))])


def test_large_groups_pause_longer() -> None:
    """The longest pause grows with the root of the number of pods, which come in an order of their own."""
    entity = Entity([], "default/g", 0.0)
    for name, since, attempts, priority in (
        *(("d", 2.0, 1, 0), ("c", 3.0, 1, 0), ("b", 3.0, 1, 0)),
        *(("tried", 9.0, 2, 0), ("high", 9.0, 0, 5)),
    ):
        entity.add(QueuedPod(member(name, priority=priority), since, attempts))
    assert [each.pod.name for each in entity.members] == ["high", "tried", "d", "b", "c"]
    entity.members.pop()
    entity.rejections = 10
    assert entity.backoff_ends == 20


# --- the claims of groups


def with_entry(group: Obj, **entry: str) -> Obj:
    """Return a group whose only entry for claims is given."""
    return {**group, "spec": {**group["spec"], "resourceClaims": [{"name": "x", **entry}]}}


@pytest.mark.parametrize(
    ("entry", "is_of_group"),
    [
        ({"name": "x", "resourceClaimName": "c"}, True),
        ({"name": "y", "resourceClaimName": "c"}, False),
        ({"name": "x", "resourceClaimName": "d"}, False),
        ({"name": "x", "resourceClaimTemplateName": "c"}, False),
    ],
)
def test_claim_is_of_the_group_whose_entry_it_is(entry: Obj, is_of_group: bool) -> None:
    """A pod and its group name a claim by the same entry: then it is reserved for the group, else for the pod."""
    consumer = consumer_of(member("a").obj, with_entry(group(1), resourceClaimName="c"), entry)
    assert consumer["name"] == ("g" if is_of_group else "a")


@pytest.mark.parametrize(
    ("consumer", "is_reserved"),
    [
        (RESERVED[0], True),
        ({**RESERVED[0], "name": "other"}, False),
        ({"resource": "pods", "name": "g", "uid": "other"}, False),
        ({"resource": "pods", "name": "b", "uid": "a"}, True),
    ],
)
def test_reservation_for_a_group_is_for_its_pods(consumer: Obj, is_reserved: bool) -> None:
    """The name of the group counts, and the uid of a pod."""
    reserved = claim("c", status={"reservedFor": [consumer]})
    assert is_reserved_for(member("a").obj, reserved, groups=True) is is_reserved


@pytest.mark.parametrize("status", [{"reservedFor": RESERVED}, allocated("dev-0")])
def test_only_a_reservation_of_the_group_is_taken_back(status: Obj) -> None:
    """A claim without devices, and one that is reserved for nobody, are left alone."""
    cluster = Cluster("n")
    cluster.claims.put(claim("c", status=status))
    outcome = cluster.schedule(group(1, "c"), member("a", "c", cpu="9"))
    assert outcome.state[dynamic_resources.NAME].unreserve is None


def test_claim_that_a_group_is_not_the_owner_of() -> None:
    """A claim that the group's status names, and that was made for somebody else, keeps its reservation."""
    named = with_entry(group(1), resourceClaimTemplateName="t")
    named["status"] = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}
    for owners, taken_back in (([], False), ([OWNER], True)):
        cluster = Cluster("n")
        status = {**allocated("dev-0"), "reservedFor": RESERVED}
        cluster.claims.put(claim("c", status=status, metadata={"ownerReferences": owners}))
        outcome = cluster.schedule(named, member("a", cpu="9"))
        assert (outcome.state[dynamic_resources.NAME].unreserve is not None) is taken_back


OWNER = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "name": "g", "uid": "uid-g", "controller": True}


def test_pods_use_claims_that_were_made_for_their_group() -> None:
    """A claim from the template of a group belongs to the group, and its pods use it; others do not."""
    entries = [{"name": "x", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}
    cluster = Cluster("n")
    cluster.claims.put(claim("c", metadata={"ownerReferences": [OWNER]}))
    ours = PodInfo({**member("a").obj, "status": status})
    ours.spec["resourceClaims"] = entries
    assert bound(cluster.schedule(group(1), ours)) == ["a"]
    stranger = pod("stranger", status=status, resourceClaims=entries)
    plugin = next(plugin for plugin in cluster.plugins if plugin.name == dynamic_resources.NAME)
    assert plugin.pre_enqueue(ours) is None
    assert plugin.pre_enqueue(stranger) is not None


def test_missing_claim_of_a_group() -> None:
    """A group names a claim that is not there."""
    outcome = Cluster("n").schedule(group(1, "c"), member("a", cpu="9"))
    text = 'error in "DynamicResources" PodGroupPostFilter plugins: resourceclaim.resource.k8s.io "c" not found'
    assert outcome.status == error(text)


def test_claims_of_pods_are_freed_before_those_of_the_group() -> None:
    """If a claim can be freed for each pod, the group keeps its reservation."""
    cluster = Cluster("n", "m")
    cluster.cache.set_node(node_obj("m", labels={"zone": "b"}))
    cluster.claims.put(claim("own", status=allocated("dev-0", on="n")))
    cluster.claims.put(claim("c", status={**allocated("dev-0", on="m"), "reservedFor": RESERVED}))
    outcome = cluster.schedule(group(1, "c"), member("a", "own", nodeSelector={"zone": "b"}))
    together: GroupClaims = outcome.state[dynamic_resources.NAME]
    assert (together.pods["a"].deallocate or {})["metadata"]["name"] == "own"
    assert (together.deallocate, together.unreserve) == (None, None)
