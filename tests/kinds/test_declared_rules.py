"""Rules that the types of the API declare, from 1.37 on; source: the answers of kube-apiserver 1.37.2.

A line of `recorded/declared-1.37.jsonl` is {"path", "object", "causes"}: what it finds wrong with a new object, all
gates on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.kinds.declared_rules.program import Program
from understudy.kinds.declared_rules.run import Found, Run
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path as FieldPath

LINES = (Path(__file__).parent / "recorded" / "declared-1.37.jsonl").read_text().splitlines()
GATES = (
    *("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAListTypeAttributes", "DRANodeAllocatableResources"),
    *("DRAOptionalNodeOperations", "DRAPartitionableDevicesType", "DRAResourcePoolStatus"),
    *("DRAWorkloadResourceClaims", "GenericWorkload"),
)
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
ALWAYS_OFF = Run(update=False, options=lambda name: False)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.37", feature_gates=dict.fromkeys(GATES, True)) as running:
        yield running


@pytest.mark.parametrize("line", LINES, ids=[str(i) for i in range(len(LINES))])
def test_new_objects(server: Server, line: str) -> None:
    """Declared rules report after those that are written by hand, and in their place where both say the same."""
    case = json.loads(line)
    answer = send(server, "POST", case["path"], case["object"])
    assert (answer.status, answer.json()["details"]["causes"]) == (422, case["causes"])


def group(name: str = "h", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}}, **spec}}


def test_changes(server: Server) -> None:
    """An update is checked where it changes something; a change of an immutable field gets one error."""
    assert send(server, "POST", GROUPS, group("g", priorityClassName="")).status == 201
    stored = send(server, "GET", f"{GROUPS}/g").json()
    assert send(server, "PUT", f"{GROUPS}/g", stored).status == 200
    stored["spec"] |= {"schedulingPolicy": {"gang": {"minCount": 0}}, "priorityClassName": "No"}
    causes = send(server, "PUT", f"{GROUPS}/g", stored).json()["details"]["causes"]
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        ("spec.schedulingPolicy.basic", "Invalid value: null: field is immutable"),
        ("spec.schedulingPolicy.gang", "Invalid value: null: field cannot be set once created"),
        ("spec.priorityClassName", "Invalid value: null: field is immutable"),
    ]


def test_groups_get_a_priority(server: Server) -> None:
    """A new group gets the priority of its class, and another one is refused."""
    created = send(server, "POST", f"{GROUPS}?dryRun=All", group()).json()
    assert (created["spec"]["priority"], created["spec"]["disruptionMode"]) == (0, {"single": {}})
    refused = send(server, "POST", f"{GROUPS}?dryRun=All", group(priority=7))
    text = "priority set in the pod group (7) must match the priority computed (0)"
    text += " based on the priority class set in the spec"
    assert (refused.status, refused.json()["message"]) == (403, f'podgroups.scheduling.k8s.io "h" is forbidden: {text}')
    unknown = send(server, "POST", f"{GROUPS}?dryRun=All", group(priorityClassName="nope")).json()
    assert unknown["message"].endswith("no PriorityClass with name nope was found")


def test_owner_references(server: Server) -> None:
    """An error of an owner reference says which one is meant; an error of the metadata stands once in the causes."""
    owners = [
        {"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"},
        {"apiVersion": "", "kind": "", "name": "n"},
    ]
    slices = "/apis/resource.k8s.io/v1/devicetaintrules"
    rule = {
        "metadata": {"name": "r", "ownerReferences": owners},
        "spec": {"taint": {"key": "a", "effect": "NoSchedule"}},
    }
    causes = send(server, "POST", slices, rule).json()["details"]["causes"]
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        (
            "metadata.ownerReferences[0].apiVersion",
            'Invalid value: "a/b/c": must be <group>/<version> or <version>',
        ),
        ("metadata.ownerReferences[1].apiVersion", "Required value: must not be empty"),
        ("metadata.ownerReferences[1].kind", "Required value: must not be empty"),
        ("metadata.ownerReferences[1].uid", "Required value: must not be empty"),
    ]


def test_pools_can_be_selected(server: Server) -> None:
    """Slices can be selected by their pool since 1.37."""
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "allNodes": True, "devices": []}
    assert send(server, "POST", slices, {"metadata": {"name": "s"}, "spec": spec}).status == 201
    assert len(send(server, "GET", f"{slices}?fieldSelector=spec.pool.name%3Dp").json()["items"]) == 1
    assert send(server, "GET", f"{slices}?fieldSelector=spec.pool.name%3Dq").json()["items"] == []
    assert send(server, "GET", f"{slices}?fieldSelector=spec.pool.generation%3D1").status == 400


def test_stable_taint_rules(server: Server) -> None:
    """In v1 a rule is replaced only with its version, and DELETE answers a Status; in v1beta2 as before."""
    rules = "/apis/resource.k8s.io/{}/devicetaintrules"
    rule = {"metadata": {"name": "stable"}, "spec": {"taint": {"key": "a", "effect": "NoSchedule"}}}
    assert send(server, "POST", rules.format("v1"), rule).status == 201
    for version, status, kind in (("v1", 422, "Status"), ("v1beta2", 200, "DeviceTaintRule")):
        path = f"{rules.format(version)}/stable"
        assert send(server, "PUT", path, rule).status == status
        assert send(server, "DELETE", f"{path}?dryRun=All").json()["kind"] == kind


def test_nodes_must_know_their_resources(server: Server) -> None:
    """A slice whose devices use resources of a node needs the node, which declares that it knows this."""
    slices, nodes = "/apis/resource.k8s.io/v1/resourceslices?dryRun=All", "/api/v1/nodes"
    device = {"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    new = {"metadata": {"name": "s2"}, "spec": {"driver": "d.example.com", "pool": pool, "nodeName": "n"}}
    new["spec"]["devices"] = [device]  # type: ignore[index]
    answers = [send(server, "POST", slices, new)]
    send(server, "POST", nodes, {"metadata": {"name": "n"}})
    answers.append(send(server, "POST", slices, new))
    known = {"metadata": {"name": "n"}, "status": {"declaredFeatures": ["DRANodeAllocatableResources"]}}
    assert send(server, "PUT", f"{nodes}/n/status", known).status == 200
    assert send(server, "POST", slices, new).status == 201
    assert [answer.json()["message"].partition("forbidden: ")[2] for answer in answers] == [
        'node "n" not found for device "d"',
        'node "n" does not support DRANodeAllocatableResources feature',
    ]


def test_pods_keep_their_claims(server: Server) -> None:
    """A status that leaves out what claims were given keeps it; an empty list clears it."""
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "x", "resourceClaimName": "y"}]}
    send(server, "POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    given = [{"name": "x", "resourceClaimName": "y"}]
    for sent, stored in ((given, given), (None, given), ([], None)):
        status = {} if sent is None else {"resourceClaimStatuses": sent}
        answer = send(server, "PUT", f"{pods}/p/status", {"metadata": {"name": "p"}, "spec": spec, "status": status})
        assert answer.json()["status"].get("resourceClaimStatuses") == stored


def test_derived_attributes_are_dropped() -> None:
    """Derived attributes of new claims are dropped while their gate is off."""
    derived = [{"name": "a.example.com/x", "expression": "1"}]
    exactly = {"deviceClassName": "c", "derivedAttributes": derived}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    with Server(emulated_version="1.37") as running:
        answer = send(running, "POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
    stored = answer.json()["spec"]["devices"]["requests"][0]["exactly"]
    assert (stored["deviceClassName"], "derivedAttributes" in stored) == ("c", False)


def test_every_recorded_rule_is_known() -> None:
    """The rules of every type can be made, whatever kinds they belong to, and run on an object without anything."""
    program = Program.of(V1_37)
    checked = set(read_release_file(V1_37, "validations.json")["requests"])
    kinds = read_release_file(V1_37, "types.json")["kinds"]
    errors: list[Found] = []
    for key, name in kinds.items():
        known_group, version, kind = key.split("/")
        steps = program.of_request(known_group, version, kind, "") if name in checked else None
        errors += steps(ALWAYS_OFF, FieldPath(), {}, None) if steps else []
    assert {one.stage for one in errors} == {"", "b"}
