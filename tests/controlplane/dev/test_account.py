"""The account of `understudy dev`: one line for each step of a claim."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.controlplane.scheduler.objects import allocated, claim, device_class, node_obj, pod_obj, resource_slice
from understudy.controlplane.dev.account import Account
from understudy.controlplane.dev.why_not import WhyNot
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj

USED: Obj = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
GOING = {"deletionTimestamp": "2025-01-01T00:00:00Z"}
GENERATED = {
    "annotations": {"resource.kubernetes.io/pod-claim-name": "x"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}],
}
TAKEN = allocated("gpu-0")
RESERVED = {**TAKEN, "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}]}


def waiting(message: str) -> Obj:
    """Return the status of a pod that waits for a node."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


def nothing(pod: Obj) -> Iterator[str]:
    """Explain nothing."""
    yield from ()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def account(lines: list[str]) -> Account:
    return Account(lines.append, nothing)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (claim(), claim(status=TAKEN), ["allocated gpu-0 of pool n (d.example)"]),
        (claim(), claim(status=RESERVED), ["allocated gpu-0 of pool n (d.example)", "reserved for pod p"]),
        (claim(status=RESERVED), claim(status=TAKEN), ["no longer reserved for pod p"]),
        (claim(status=RESERVED), claim(), [
            "no longer reserved for pod p", "deallocated, gpu-0 of pool n (d.example) given back"]),
        (claim(), claim(metadata=GOING), ["is being deleted"]),
        (claim(status=TAKEN), claim(status=TAKEN, metadata={"labels": {"a": "b"}}), []),
    ],
)  # fmt: skip
def test_steps_of_a_claim(account: Account, lines: list[str], old: Obj, new: Obj, expected: list[str]) -> None:
    """Each step of a claim is a line; other changes are none."""
    account.claim_updated(old, new)
    assert lines == [f"claim default/c: {text}" for text in expected]


def test_claims_come_and_go(account: Account, lines: list[str]) -> None:
    """A generated claim names its pod; one that is there already is told of with its devices."""
    account.claim_added(claim(metadata=GENERATED))
    account.claim_added(claim("d", status=TAKEN))
    account.claim_deleted(claim())
    assert lines == [
        "claim default/c: created from a template for pod p",
        "claim default/d: created",
        "claim default/d: allocated gpu-0 of pool n (d.example)",
        "claim default/c: deleted",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod_obj(**USED), pod_obj(nodeName="n", **USED), ["bound to node n"]),
        (pod_obj(**USED), pod_obj(status={"phase": "Running"}, **USED), ["running"]),
        (pod_obj(**USED), pod_obj(status=waiting("no room"), **USED), ["waits: no room"]),
        (pod_obj(status=waiting("no room"), **USED), pod_obj(status=waiting("no room"), **USED), []),
        (pod_obj(**USED), pod_obj(metadata=GOING, **USED), ["is being deleted"]),
        (pod_obj(), pod_obj(nodeName="n"), []),
    ],
)
def test_steps_of_a_pod(account: Account, lines: list[str], old: Obj, new: Obj, expected: list[str]) -> None:
    """Each step of a pod with claims is a line; pods without claims have none."""
    account.pod_updated(old, new)
    assert lines == [f"pod default/p: {text}" for text in expected]


def test_warnings_are_told(account: Account, lines: list[str]) -> None:
    """Warnings of kubelets and controllers are lines; those of the scheduler are told of as conditions."""
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    for kind, reason in (
        ("Warning", "FailedPrepareDynamicResources"),
        ("Normal", "x"),
        ("Warning", "FailedScheduling"),
    ):
        account.event_changed({"type": kind, "reason": reason, "message": "m", "involvedObject": about})
    assert lines == ["pod default/p: FailedPrepareDynamicResources: m"]


def test_repeated_warnings_are_told_less_and_less(account: Account, lines: list[str]) -> None:
    """A warning that comes again and again is a line when the number of times has doubled."""
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    for count in range(1, 10):
        account.event_changed(
            {"type": "Warning", "reason": "R", "message": "m", "count": count, "involvedObject": about}
        )
    times = ["", " (2 times)", " (4 times)", " (8 times)"]
    assert lines == [f"pod default/p: R: m{text}" for text in times]


def test_devices_are_told(account: Account, lines: list[str]) -> None:
    """A line says what a driver publishes, and again when the number of devices or their taints change."""
    taint = {"key": "broken", "value": "yes", "effect": "NoExecute"}
    one, two = resource_slice("n", 1), resource_slice("n", 2)
    [device] = one["spec"]["devices"]
    tainted = {**one, "spec": {**one["spec"], "devices": [{**device, "taints": [taint]}]}}
    account.slice_added(two)
    account.slice_updated(two, {**two, "metadata": {**two["metadata"], "resourceVersion": "2"}})
    account.slice_updated(two, one)
    account.slice_updated(one, tainted)
    account.slice_deleted(tainted)
    name = one["metadata"]["name"]
    assert lines == [
        f"slice {name}: 2 devices of pool n (d.example)",
        f"slice {name}: 1 device of pool n (d.example)",
        f"slice {name}: 1 device of pool n (d.example), {device['name']} is tainted broken=yes:NoExecute",
        f"slice {name}: deleted",
    ]


def test_why_a_claim_gets_no_devices(lines: list[str]) -> None:
    """A pod that waits for devices is followed by the allocator's explanation, for each node."""
    why_not = WhyNot(V1_36, Gates.of(V1_36))
    why_not.put_node(node_obj("n"))
    why_not.devices.put_class(device_class())
    why_not.devices.put_slice(resource_slice("n"))
    why_not.claims.put(claim())
    why_not.claims.put(claim("d", status=allocated("dev-0")))
    message = "0/1 nodes are available: 1 cannot allocate all claims."
    Account(lines.append, why_not.lines).pod_updated(pod_obj(**USED), pod_obj(status=waiting(message), **USED))
    assert lines[:2] == [f"pod default/p: waits: {message}", "    node n: does not fit"]
    assert "d.example/n/dev-0" in lines[-1]
    assert "default/d" in lines[-1]


def test_repeated_waits_are_one_line(account: Account, lines: list[str]) -> None:
    """A reason that comes again is no second line, nor is another note on preemption; after a node it may be one."""
    tail = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    before_1_37 = f" still not schedulable,{tail}"
    reasons = ["no room.", f"no room.{tail}", "no devices.", f"no room.{before_1_37}"]
    pods = [pod_obj(**USED), *(pod_obj(status=waiting(reason), **USED) for reason in reasons)]
    for old, new in itertools.pairwise(pods):
        account.pod_updated(old, new)
    assert lines == ["pod default/p: waits: no room.", "pod default/p: waits: no devices."]


def test_nodes_without_devices(lines: list[str]) -> None:
    """A node without published devices gets one line that says so, and no reasons about single devices."""
    why_not = WhyNot(V1_36, Gates.of(V1_36))
    for node in ("n", "m"):
        why_not.put_node(node_obj(node))
    why_not.devices.put_class(device_class())
    why_not.devices.put_slice(resource_slice("m"))
    why_not.claims.put(claim())
    why_not.claims.put(claim("d", status=allocated("dev-0")))
    assert next(why_not.lines(pod_obj(**USED))) == "no driver has published devices for node n"


def test_reasons_are_told_once(lines: list[str]) -> None:
    """A pod that waits for the same reasons as before is told of without them."""
    reasons = ["node n: does not fit"]
    account = Account(lines.append, lambda _: iter(reasons))
    messages = ("1 cannot allocate all claims.", "2 cannot allocate all claims.", "3 cannot allocate all claims.")
    pods = [pod_obj(**USED), *(pod_obj(status=waiting(message), **USED) for message in messages)]
    account.pod_updated(pods[0], pods[1])
    account.pod_updated(pods[1], pods[2])
    reasons.append("node m: does not fit")
    account.pod_updated(pods[2], pods[3])
    told = [f"pod default/p: waits: {message}" for message in messages]
    assert lines == [told[0], "    node n: does not fit", told[1], told[2], *(f"    {reason}" for reason in reasons)]
