"""Attempts to find nodes and devices for pods, in memory, with kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.objects import (
    allocated,
    claim,
    container,
    device_class,
    node_obj,
    pod,
    pod_obj,
    resource_slice,
)
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Failure, Placement, Scheduler
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.plugins.defaults import default_plugins
from understudy.controlplane.scheduler.plugins.dynamicresources import dynamic_resources
from understudy.controlplane.scheduler.plugins.dynamicresources.dynamic_resources import DynamicResources
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_36, V1_37, Version
from understudy.machinery.types import Obj

NOT_HELPFUL = "preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."


class Cluster:
    """A scheduler with what it knows: `n` is a node with one device, `gpu` the class of it."""

    def __init__(
        self,
        *nodes: str,
        release: Version = V1_36,
        devices: int = 1,
        classes: tuple[str, ...] = ("gpu",),
        gates: dict[str, bool] | None = None,
    ) -> None:
        on = Gates.of(release, gates)
        self.cache = NodeCache()
        self.devices = Devices(release, on)
        self.claims = ClaimTracker(self.devices.allocated)
        self.plugins = default_plugins(release, on, self.cache, self.claims, self.devices)
        self.scheduler = Scheduler(Framework(self.plugins), self.cache, release)
        for name in nodes or ("n",):
            self.cache.set_node(node_obj(name))
            self.devices.put_slice(resource_slice(name, devices))
        for name in classes:
            self.devices.put_class(device_class(name))

    def place(self, pod: PodInfo) -> str:
        """Return the node that a pod gets."""
        outcome = self.scheduler.schedule(pod)
        assert isinstance(outcome, Placement), outcome
        return outcome.node

    def failure(self, pod: PodInfo) -> Failure:
        """Return the reason that a pod gets no node."""
        outcome = self.scheduler.schedule(pod)
        assert isinstance(outcome, Failure), outcome
        return outcome

    @property
    def dra(self) -> DynamicResources:
        """Return the plugin for claims."""
        (plugin,) = (plugin for plugin in self.plugins if isinstance(plugin, DynamicResources))
        return plugin


def user(name: str = "p", *claims: str, **spec: Any) -> PodInfo:
    """Return a pod that uses claims, `c` by default."""
    return pod(name, resourceClaims=[{"name": c, "resourceClaimName": c} for c in claims or ("c",)], **spec)


def error_claim(expression: str) -> Obj:
    return claim(requests=[
        {"name": "g", "exactly": {
            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
            "selectors": [{"cel": {"expression": expression}}],
        }},
    ])  # fmt: skip


def no_node(text: str, then: str, n: int = 1) -> str:
    return f"0/{n} nodes are available: {text} {then}, {NOT_HELPFUL.format(n=n)}"


STILL, NOTHING = "still not schedulable", "no new claims to deallocate"
NONE = claim(
    requests=[{"name": "g", "exactly": {"deviceClassName": "none", "allocationMode": "ExactCount", "count": 1}}]
)
FIRST = claim(requests=[{"name": "g", "firstAvailable": [{"name": "s", "deviceClassName": "none"}]}])


@pytest.mark.parametrize(
    ("claims", "pod", "text"),
    [
        ([claim(), claim("d", status=allocated("dev-0"))], user(), no_node("1 cannot allocate all claims.", STILL)),
        ([NONE], user(), no_node("request g: device class none does not exist.", NOTHING)),
        ([FIRST], user(), no_node("request g/s: device class none does not exist.", NOTHING)),
        ([claim(status=allocated("dev-0", on="m"))], user(), no_node(
            "1 resourceclaim not available on the node.", "deallocation of ResourceClaim completed")),
        ([], user(), no_node('resourceclaim.resource.k8s.io "c" not found.', NOTHING)),
        ([claim(metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})], user(),
         no_node('resourceclaim "c" is being deleted.', NOTHING)),
        ([claim()], user(containers=[container(cpu="5")]), no_node("1 Insufficient cpu.", STILL)),
        ([], pod(nodeSelector={"no": "where"}), no_node(
            "1 node(s) didn't match Pod's node affinity/selector.", NOTHING)),
    ],
)  # fmt: skip
def test_words_about_pods_that_get_no_node(claims: list[Obj], pod: PodInfo, text: str) -> None:
    """The condition of a pod has the words of all plugins about all nodes."""
    cluster = Cluster()
    for each in claims:
        cluster.claims.put(each)
    failure = cluster.failure(pod)
    assert failure.message == text
    assert failure.is_rejected
    assert failure.plugins


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (error_claim("device.attributes['d.example'].missing == 1"),
         "claim default/c: selector #0: CEL runtime error: no such key: missing"),
        (claim(requests=[{"name": "g", "exactly": {"allocationMode": "All"}}]), None),
    ],
)  # fmt: skip
def test_errors_of_the_allocator(claim: Obj, text: str | None) -> None:
    """A mistake in a claim or class ends the attempt, and is no reason against a node."""
    cluster = Cluster()
    cluster.claims.put(claim)
    failure = cluster.failure(user())
    expected = f'running "DynamicResources" filter plugin: {text}'
    if text is None:
        expected = 'running PreFilter plugin "DynamicResources": request g: unsupported request type'
    assert failure.message == expected
    assert not failure.is_rejected
    assert not failure.plugins


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (V1_36, 'running "DynamicResources" filter plugin: node n: timed out trying to allocate devices'),
        (V1_34, no_node("1 timed out trying to allocate devices.", STILL)),
    ],
)
def test_search_that_takes_too_long(release: Version, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for devices of a node is given up: an error of the attempt from 1.36 on, a reason before."""
    monkeypatch.setattr(dynamic_resources, "FILTER_TIMEOUT", -1.0)
    cluster = Cluster(release=release)
    cluster.claims.put(claim())
    assert cluster.failure(user()).message == text


def test_pod_without_claims_is_not_told_about_them_in_1_33() -> None:
    """The message for a pod without claims does not mention claims in 1.33; in other releases it does."""
    failure = Cluster(release=V1_33).failure(pod(nodeSelector={"no": "where"}))
    reason = "1 node(s) didn't match Pod's node affinity/selector."
    assert failure.message == f"0/1 nodes are available: {reason} {NOT_HELPFUL.format(n=1)}"


def test_words_of_1_37() -> None:
    """From 1.37 nothing is said about claims where none could be freed."""
    cluster = Cluster(release=V1_37)
    reason = "1 node(s) didn't match Pod's node affinity/selector."
    failure = cluster.failure(pod(nodeSelector={"no": "where"}))
    assert failure.message == f"0/1 nodes are available: {reason} {NOT_HELPFUL.format(n=1)}"
    cluster.claims.put(claim(status=allocated("dev-0")))
    failure = cluster.failure(user(containers=[container(cpu="5")]))
    assert failure.message == f"0/1 nodes are available: 1 Insufficient cpu. {NOT_HELPFUL.format(n=1)}"


@pytest.mark.parametrize(("declared", "fits"), [([], False), (["DRAOptionalNodeOperations"], True)])
def test_devices_that_skip_operations(declared: list[str], fits: bool) -> None:
    """A pod whose device is not prepared goes only to a node whose kubelet knows of this."""
    cluster = Cluster(release=V1_37)
    node = node_obj("n")
    cluster.cache.set_node({**node, "status": {**node["status"], "declaredFeatures": declared}})
    status = allocated("dev-0")
    status["allocation"]["devices"]["results"][0]["skipNodeOperations"] = ["*"]
    cluster.claims.put(claim(status=status))
    outcome = cluster.scheduler.schedule(user())
    assert isinstance(outcome, Placement) is fits
    if isinstance(outcome, Failure):
        assert "1 resourceclaim not available on the node. deallocation of" in outcome.message


@pytest.mark.parametrize(
    ("release", "gates", "fractions", "derived"),
    [
        (V1_37, {}, False, False),
        (V1_37, {"DRAFractionalCapacityRange": True}, True, False),
        (V1_37, {"DRADerivedAttributes": True}, False, True),
    ],
)
def test_gates_of_the_allocator(release: Version, gates: dict[str, bool], fractions: bool, derived: bool) -> None:
    """The allocator knows the gates of the scheduler that concern it."""
    rules = Cluster(release=release, gates=gates).devices.allocator().rules
    assert (rules.fractions, rules.derived_attributes) == (fractions, derived)


def test_no_nodes() -> None:
    """A cluster without nodes has a message of its own."""
    cluster = Cluster()
    cluster.cache.remove_node("n")
    assert cluster.failure(pod()).message == "no nodes available to schedule pods"


def test_rule_taints_devices() -> None:
    """A device that a DeviceTaintRule taints is not allocated, until the rule is gone."""
    cluster = Cluster(gates={"DRADeviceTaintRules": True})
    taint = {"key": "broken", "effect": "NoSchedule", "timeAdded": "2025-01-01T00:00:00Z"}
    rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"device": "dev-0"}, "taint": taint}}
    cluster.devices.put_taint_rule(rule)
    cluster.claims.put(claim())
    assert "cannot allocate all claims" in cluster.failure(user()).message
    cluster.devices.remove_taint_rule(rule)
    assert cluster.place(user()) == "n"


def test_pod_that_was_seen_before_its_node_takes_room() -> None:
    """Pods on a node that is not known yet are counted when it comes."""
    cluster = Cluster()
    cluster.cache.set_pod(pod("early", nodeName="late", containers=[container(cpu="4")]))
    cluster.cache.remove_node("n")
    cluster.cache.set_node(node_obj("late"))
    assert "Insufficient cpu" in cluster.failure(pod(containers=[container(cpu="1")])).message


def test_pods_are_spread_over_nodes() -> None:
    """The search begins behind the node that was taken last."""
    cluster = Cluster("a", "b", "c")
    assert [cluster.place(pod(name)) for name in ("p", "q", "r", "s")] == ["a", "b", "c", "a"]


def test_devices_are_not_given_away_twice() -> None:
    """A device that was chosen is in use before that is written, and the claim waits for it to be written."""
    cluster = Cluster(devices=2)
    for name in ("c", "d", "e"):
        cluster.claims.put(claim(name))
    placements = [cluster.scheduler.schedule(user(name, name)) for name in ("c", "d")]
    chosen = []
    for placement in placements:
        assert isinstance(placement, Placement)
        (allocation,) = placement.state.data[dynamic_resources.NAME].allocations.values()
        chosen.append(allocation["devices"]["results"][0]["device"])
    assert chosen == ["dev-0", "dev-1"]
    assert cluster.failure(user("e", "e")).message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    waiting = "0/1 nodes are available: resource claim default/c is in the process of being allocated. no new claims"
    assert cluster.failure(user("other", "c")).message.startswith(waiting)


def test_what_was_taken_is_given_back() -> None:
    """A pod that could not be bound gives back its devices and its room."""
    cluster = Cluster()
    cluster.claims.put(claim("c"))
    cluster.claims.put(claim("d"))
    large = [container(cpu="4")]
    placement = cluster.scheduler.schedule(user("p", "c", containers=large))
    assert isinstance(placement, Placement)
    assert cluster.failure(user("q", "d", containers=large)).message.startswith("0/1 nodes are available: 1 Insuff")
    cluster.scheduler.give_back(placement)
    assert cluster.place(user("q", "d", containers=large)) == "n"


def test_claim_of_a_pod_keeps_it_to_the_node_of_its_devices() -> None:
    """A pod goes where the devices of its claim are."""
    cluster = Cluster("a", "b", "n")
    cluster.claims.put(claim(status=allocated("dev-0", on="b")))
    assert cluster.place(user()) == "b"


def test_claim_in_use_elsewhere_is_not_freed() -> None:
    """Only a claim that no other pod uses is freed for a pod that cannot go where its devices are."""
    cluster = Cluster()
    used = {**allocated("dev-0", on="m"), "reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}
    cluster.claims.put(claim(status=used))
    assert STILL in cluster.failure(user()).message


GENERATED = [{"name": "x", "resourceClaimTemplateName": "t"}]
OWNER = {"ownerReferences": [{"uid": "p", "controller": True, "kind": "Pod", "name": "p", "apiVersion": "v1"}]}
STATUS = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c"}]}


@pytest.mark.parametrize(
    ("claims", "status", "kept_back"),
    [
        ([claim(metadata=OWNER)], STATUS, False),
        ([claim(metadata=OWNER)], {}, True),
        ([claim()], STATUS, True),
        ([], STATUS, True),
        ([], {"resourceClaimStatuses": [{"name": "x"}]}, False),
    ],
    ids=["ready", "no status", "of another pod", "missing", "none needed"],
)
def test_pod_is_kept_back_until_its_claims_are_there(claims: list[Obj], status: Obj, kept_back: bool) -> None:
    """No attempt is made before a pod has its claim, by name in its status and as its own."""
    cluster = Cluster()
    for each in claims:
        cluster.claims.put(each)
    assert bool(cluster.dra.pre_enqueue(pod(resourceClaims=GENERATED, status=status))) is kept_back


FREED = ClusterEvent(Kind.CLAIM, Action.UPDATE, claim("d", status=allocated("dev-0")), claim("d"))


@pytest.mark.parametrize(
    ("event", "helps"),
    [
        (FREED, True),
        (ClusterEvent(Kind.CLAIM, Action.ADD, None, claim("c")), True),
        (ClusterEvent(Kind.CLAIM, Action.ADD, None, claim("d")), False),
        (ClusterEvent(Kind.CLAIM, Action.UPDATE, claim("c"), claim("c", metadata={"labels": {}})), False),
        (ClusterEvent(Kind.CLAIM, Action.UPDATE, claim("c"), claim("c", status=allocated("dev-0"))), True),
        (ClusterEvent(Kind.CLAIM, Action.UPDATE, claim("d"), claim("d", status=allocated("dev-0"))), False),
        (ClusterEvent(Kind.SLICE, Action.ADD, None, resource_slice()), True),
        (ClusterEvent(Kind.CLASS, Action.ADD, None, device_class()), True),
        (ClusterEvent(Kind.POD, Action.UPDATE_CLAIMS, pod_obj("q"), pod_obj("q")), False),
    ],
)
def test_events_that_may_help_a_pod_with_claims(event: ClusterEvent, helps: bool) -> None:
    """Devices that are free again help any pod; a claim that is new or has changed only the pods that use it."""
    cluster = Cluster()
    cluster.claims.put(claim("c"))
    assert cluster.dra.is_schedulable_after(user(), event) is helps


@pytest.mark.parametrize(("status", "helps"), [(None, False), (allocated("dev-0"), True)], ids=["free", "allocated"])
def test_deleted_claims_are_followed_from_1_37_on(status: Obj | None, helps: bool) -> None:
    """The devices of a claim that is deleted together with its allocation may help any pod."""
    event = ClusterEvent(Kind.CLAIM, Action.DELETE, claim("d", status=status))
    assert event.trigger not in Cluster(release=V1_36).dra.triggers
    assert event.trigger in Cluster(release=V1_37).dra.triggers
    assert Cluster(release=V1_37).dra.is_schedulable_after(user(), event) is helps


@pytest.mark.parametrize(("release", "follows"), [(V1_31, False), (V1_32, True)])
def test_slices_are_followed_from_1_32_on(release: Version, follows: bool) -> None:
    """kube-scheduler of 1.31 does not look at pods again when devices are added."""
    assert (Trigger(Kind.SLICE, Action.ADD) in Cluster(release=release).dra.triggers) is follows


@pytest.mark.parametrize(
    ("release", "reasons"),
    [(V1_31, "1 Insufficient cpu."), (V1_32, "1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].")],
)
def test_nodes_left_out_are_counted_from_1_32_on(release: Version, reasons: str) -> None:
    """kube-scheduler of 1.31 does not mention the nodes which a pod that names others cannot have."""
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    big = pod(affinity={"nodeAffinity": required}, containers=[container(cpu="9")])
    text = Cluster("n", "m", release=release).failure(big).message
    assert text.startswith(f"0/2 nodes are available: {reasons} {NOTHING}")


def test_no_device_helps_a_pod_whose_claim_is_missing() -> None:
    """A pod that waits for its claim is not looked at for anything else."""
    cluster = Cluster()
    assert not cluster.dra.is_schedulable_after(user(), FREED)
    assert not cluster.dra.is_schedulable_after(user(), ClusterEvent(Kind.SLICE, Action.ADD, None, resource_slice()))
