"""Stories about groups of pods for two schedulers: gangs, and claims that a group's pods share.

They need the feature gates GenericWorkload and DRAWorkloadResourceClaims, and are told as those of `scheduler_stories`.
None has pods that share a claim without devices in one attempt: kube-scheduler binds one of them, fails with the other
("got allocated elsewhere in the meantime") and tries it again, and what its condition says in the end is a race.
"""

from __future__ import annotations

from typing import Any

from scripts.compare.cases.scheduler_stories import DRIVER, PRIORITIES, Change, Maker, Obj, Step, Story
from understudy.controlplane.client.resources import NODES, PODS, Resource, pod_groups

BIG = {"cpu": "3"}


def groups(m: Maker) -> Resource:
    """Return the resource of PodGroups."""
    return pod_groups(m.release)


def group(m: Maker, at_least: int = 0, *claims: str, **spec: Any) -> Change:
    """Return the group `g`: a gang of some pods at least, or one without conditions for 0. It uses claims."""
    policy: Obj = {"gang": {"minCount": at_least}} if at_least else {"basic": {}}
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    body = {"metadata": {}, "spec": {"schedulingPolicy": policy, "resourceClaims": entries, **spec}}
    return Change("create", groups(m), "g", body)


def member(m: Maker, name: str, *claims: str, **more: Any) -> Change:
    """Return a pod of the group."""
    return m.pod(name, *claims, schedulingGroup={"podGroupName": "g"}, **more)


def only(name: str) -> Obj:
    """Return the node selector for one node."""
    return {"kubernetes.io/hostname": name}


def small_and_large(m: Maker) -> Step:
    """Return two pods of the group: one for `n1`, and one that needs a larger node."""
    return [member(m, "a", requests=BIG, nodeSelector=only("n1")), member(m, "b", requests={"cpu": "5"})]


def incomplete_gang(m: Maker) -> list[Step]:
    """A gang waits for its second pod, without a word."""
    return [m.node("n1"), [group(m, 2), member(m, "a")], [member(m, "b")], [member(m, "late")]]


def gang_without_room(m: Maker) -> list[Step]:
    """Both pods of a gang wait while there is room for one; then there is room for both."""
    return [
        m.node("n1"),
        [group(m, 2), *small_and_large(m)],
        m.node("n2", allocatable={"cpu": "8"}),
    ]


def hopeless_gang(m: Maker) -> list[Step]:
    """The first of three pods that are all needed fits nowhere: the others are not looked at."""
    first = member(m, "a", requests={"cpu": "9"}, priorityClassName="high")
    return [
        [*m.node("n1"), Change("create", PRIORITIES, "high", {"metadata": {}, "value": 7})],
        [group(m, 3, priorityClassName="high"), first],
        [member(m, name, priorityClassName="high") for name in ("b", "c")],
    ]


def more_than_needed(m: Maker) -> list[Step]:
    """One of two pods is enough; the other one waits for room.

    They do not come together: kube-scheduler tries the second one again immediately, and forgets that the group is
    scheduled if it has not heard yet of its own write.
    """
    return [
        m.node("n1"),
        [group(m, 1), member(m, "a", requests=BIG)],
        [member(m, "b", requests=BIG)],
        m.node("n2"),
    ]


def basic_group(m: Maker) -> list[Step]:
    """Pods of a group without conditions are scheduled as far as there is room."""
    return [
        m.node("n1"),
        [group(m), member(m, "small")],
        [member(m, "huge", requests={"cpu": "9"})],
        m.node("n2", allocatable={"cpu": "20"}),
    ]


def late_group(m: Maker) -> list[Step]:
    """A pod is there before its group."""
    return [m.node("n1"), [member(m, "a")], [group(m)]]


def deleted_group(m: Maker) -> list[Step]:
    """A group is deleted while its pods wait for room, and is there again later."""
    return [
        m.node("n1"),
        [group(m, 2), *small_and_large(m)],
        [Change("patch", groups(m), "g", {"metadata": {"finalizers": None}}), Change("delete", groups(m), "g")],
        m.node("n2", allocatable={"cpu": "8"}),
        [group(m, 2)],
    ]


def gated_member(m: Maker) -> list[Step]:
    """A pod whose gates are closed holds its group back."""
    return [
        m.node("n1"),
        [member(m, "gated", schedulingGates=[{"name": "example.com/a"}]), group(m, 1), member(m, "open")],
        [Change("patch", PODS, "gated", {"spec": {"schedulingGates": []}})],
    ]


def deleted_member(m: Maker) -> list[Step]:
    """A gang of two is short of a pod that is deleted; another one takes its place."""
    return [
        m.node("n1"),
        [group(m, 2), member(m, "a", requests=BIG), member(m, "b", requests=BIG)],
        [Change("delete", PODS, "b")],
        [member(m, "c")],
    ]


def other_priority(m: Maker) -> list[Step]:
    """The priority of a pod is not that of its group."""
    return [
        [*m.node("n1"), Change("create", PRIORITIES, "high", {"metadata": {}, "value": 7})],
        [group(m), member(m, "a", priorityClassName="high")],
    ]


def gang_without_nodes(m: Maker) -> list[Step]:
    """A gang waits for nodes."""
    return [[group(m, 2), member(m, "a"), member(m, "b")], m.node("n1")]


def claim_of_group(m: Maker) -> list[Step]:
    """A claim of a group is reserved for the group, and its devices are for all of its pods."""
    return [
        m.one_node(),
        [m.claim("c"), group(m, 0, "c"), member(m, "a", "c")],
        [member(m, "b", "c")],
        [m.pod("outside", "c")],
    ]


def gang_without_devices(m: Maker) -> list[Step]:
    """Each pod of a gang has a claim, and there is one device for both; then there are two."""
    more = m.slice("n1", 2).body["spec"]["devices"]
    return [
        m.one_node(),
        [m.claim("c"), m.claim("d"), group(m, 2), member(m, "a", "c"), member(m, "b", "d")],
        [Change("patch", m.slice("n1").resource, "slice-n1", {"spec": {"devices": more}})],
    ]


def template_of_group(m: Maker) -> list[Step]:
    """The claim of a group is made from a template: it belongs to the group, and the status of both names it."""
    entry = {"name": "x", "resourceClaimTemplateName": "t"}
    named = {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}]}}
    return [
        m.one_node(),
        [group(m, 1, resourceClaims=[entry]), member(m, "a", resourceClaims=[entry])],
        [Change("create-owned", m.claims, "made", {"owner": "g", "of": groups(m), **m.claim("").body})],
        [Change("patch", groups(m), "g", named, "status")],
        [Change("patch", PODS, "a", named, "status")],
        [member(m, "b", resourceClaims=[entry]), Change("patch", PODS, "b", named, "status")],
    ]


def claim_elsewhere(m: Maker) -> list[Step]:
    """The claim of a group has a device of a node where its pods cannot go, and is reserved for the group already."""
    result = {"request": "g", "driver": DRIVER, "pool": "n1", "device": "dev-0"}
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    return [
        [*m.node("n1"), *m.node("n2"), m.slice("n1"), m.slice("n2"), m.device_class()],
        [m.claim("c"), Change("patch", m.claims, "c", finalizers), group(m, 1, "c")],
        [
            Change("patch", m.claims, "c", {"status": {"allocation": allocation}}, "status"),
            Change("reserve", m.claims, "c", {"group": "g"}),
        ],
        [member(m, "a", "c", nodeSelector=only("n2"))],
    ]


def reserved_and_too_large(m: Maker) -> list[Step]:
    """A claim with devices is reserved for a group none of whose pods fits: the reservation is taken back."""
    return [
        m.one_node(),
        [m.claim("c"), m.pod("first", "c")],
        [group(m, 1, "c"), Change("reserve", m.claims, "c", {"group": "g"})],
        [member(m, "a", "c", requests={"cpu": "9"})],
    ]


def removed_node(m: Maker) -> list[Step]:
    """A gang has its pods on a node; a further pod wants a node that is gone."""
    return [
        [*m.node("n1"), *m.node("n2")],
        [group(m, 2), *(member(m, name, nodeSelector=only("n1")) for name in "ab")],
        [Change("delete", NODES, "n2")],
        [member(m, "c", nodeSelector=only("n2"))],
    ]


STORIES: list[Story] = [
    *(incomplete_gang, gang_without_room, hopeless_gang, more_than_needed, basic_group, late_group, deleted_group),
    *(gated_member, deleted_member, other_priority, gang_without_nodes, claim_of_group),
    *(gang_without_devices, template_of_group, claim_elsewhere, reserved_and_too_large),
    removed_node,
]
