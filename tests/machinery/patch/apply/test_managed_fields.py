"""Ownership through creates, updates and patches, as stories; and the names of managers."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.machinery.patch.apply.managed_fields import ignore_timestamps, manager_name, validate_field_manager
from understudy.machinery.releases.version import V1_32
from understudy.machinery.validation.field import Path

MINE = {"manager": "me", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
SENT = MINE | {"time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}}


def test_who_creates_owns_all_that_is_set(world: Any) -> None:
    w = world()
    w.create("alice", {"metadata": {"labels": {"l": "1"}, "finalizers": ["e.io/f"]}, "data": {"a": "1"}})
    assert w.owners() == {
        "Update alice": [
            ".data",
            ".data.a",
            ".metadata.finalizers",
            ".metadata.labels",
            '.metadata.finalizers[="e.io/f"]',
            ".metadata.labels.l",
        ]
    }


def test_an_object_in_which_nothing_is_set_has_no_owners(world: Any) -> None:
    w = world()
    assert w.create("alice", {})["metadata"].get("managedFields", []) == []


def test_who_changes_a_field_takes_it(world: Any) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": "2", "c": "3"}})
    assert w.owners() == {"Update alice": [".data", ".data.b"], "Update bob": [".data.a", ".data.c"]}


def test_what_is_removed_is_nobodys(world: Any) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": None}})
    assert w.owners() == {"Update alice": [".data", ".data.b"]}
    w.update("bob", {"data": None})
    assert w.owners() == {}


def test_changes_take_from_those_who_apply_too(world: Any) -> None:
    w = world()
    w.apply("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": "2"}})
    assert w.owners() == {"Apply alice": [".data.b"], "Update bob": [".data.a"]}


def test_a_write_that_changes_nothing_keeps_all_times(world: Any) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("alice", {"data": {"a": "1"}})
    assert w.times() == {"Update alice": "01"}
    w.update("alice", {"data": {"a": "2"}})
    assert w.times() == {"Update alice": "03"}


def test_a_manager_has_one_entry_per_subresource_and_version(world: Any) -> None:
    w = world("resource.k8s.io/v1beta1", "ResourceClaim", main=(("status",),), status=(("spec",),))
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    w.update("alice", {"status": {"reservedFor": [consumer]}}, subresource="status")
    w.update("alice", {"metadata": {"labels": {"b": "1"}}}, api_version="resource.k8s.io/v1alpha3")
    assert w.owners() == {
        "Update alice": [".metadata.labels", ".metadata.labels.a"],
        "Update alice status": [
            ".status.reservedFor",
            '.status.reservedFor[uid="u"]',
            '.status.reservedFor[uid="u"].name',
            '.status.reservedFor[uid="u"].resource',
            '.status.reservedFor[uid="u"].uid',
        ],
        "Update alice resource.k8s.io/v1alpha3": [".metadata.labels.b"],
    }


def test_fields_that_a_request_cannot_change_are_not_owned(world: Any) -> None:
    w = world(
        "resource.k8s.io/v1beta1", "ResourceClaim", main=(("status",),), status=(("spec",), ("metadata", "labels"))
    )
    w.create("alice", {"metadata": {"labels": {"a": "1"}}, "status": {"reservedFor": [{"uid": "u"}]}})
    assert w.owners() == {"Update alice": [".metadata.labels", ".metadata.labels.a"]}
    w.update("bob", {"metadata": {"labels": {"a": "2"}}}, subresource="status")
    assert w.owners() == {"Update alice": [".metadata.labels", ".metadata.labels.a"]}


@pytest.mark.parametrize("cleared", [[], [{}]])
def test_owners_can_be_cleared_and_stay_so(world: Any, cleared: list[Any]) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("bob", {"metadata": {"managedFields": cleared}})
    w.update("bob", {"data": {"b": "1"}})
    assert w.owners() == {}


def test_owners_can_be_said(world: Any) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("bob", {"metadata": {"managedFields": [SENT]}})
    assert w.live["metadata"]["managedFields"] == [SENT]


BROKEN = [
    [MINE | {"operation": "Nonsense"}],
    [MINE | {"apiVersion": ""}],
    [MINE | {"fieldsType": ""}],
    [MINE | {"fieldsType": "FieldsV2"}],
    [SENT | {"fieldsV1": {"nonsense": {}}}],
    [SENT | {"fieldsV1": {"k:nonsense": {}}}],
    [SENT | {"fieldsV1": "x"}],
]


@pytest.mark.parametrize("sent", BROKEN)
def test_broken_entries_count_as_none(world: Any, sent: list[Any]) -> None:
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    before = w.live["metadata"]["managedFields"]
    w.update("bob", {"metadata": {"managedFields": sent}})
    assert w.live["metadata"]["managedFields"] == before


def test_a_subresource_does_not_set_owners(world: Any) -> None:
    w = world("v1", "Pod")
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    w.update("bob", {"metadata": {"managedFields": [{}]}}, subresource="status")
    assert list(w.owners()) == ["Update alice"]


def test_parts_of_atomic_fields_are_owned_as_the_whole(world: Any) -> None:
    w = world("v1", "Pod")
    w.create("alice", {"spec": {"nodeSelector": {"a": "1"}}})
    w.update(
        "alice", {"metadata": {"managedFields": [SENT | {"fieldsV1": {"f:spec": {"f:nodeSelector": {"f:a": {}}}}}]}}
    )
    assert w.owners() == {"Update me": [".spec.nodeSelector"]}


def test_entries_sent_are_put_in_order(world: Any) -> None:
    w = world()
    fields = {"f:data": {"f:b": {}, ".": {}, "f:a": {}, 'x:"unknown"': {}}}
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("alice", {"metadata": {"managedFields": [SENT | {"fieldsV1": fields}]}})
    assert str(w.live["metadata"]["managedFields"][0]["fieldsV1"]) == "{'f:data': {'.': {}, 'f:a': {}, 'f:b': {}}}"


def test_elements_are_ordered_by_their_keys_values(world: Any) -> None:
    w = world("v1", "Pod")
    ports = [{"containerPort": port, "protocol": "TCP"} for port in (1000, 80, 9)]
    w.create("alice", {"spec": {"containers": [{"name": "c", "ports": ports}]}})
    (entry,) = w.live["metadata"]["managedFields"]
    assert list(entry["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]) == [
        ".",
        'k:{"containerPort":9,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":1000,"protocol":"TCP"}',
    ]


def test_duplicate_elements_are_owned_together(world: Any) -> None:
    w = world("v1", "Pod")
    env = [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}, {"name": "F", "value": "1"}]

    def owned() -> list[str]:
        return [text.partition("env")[2] for text in w.owners()["Update bob"] if "env" in text]

    w.create("alice", {"spec": {"containers": [{"name": "c"}]}})
    w.update("bob", {"spec": {"containers": [{"name": "c", "env": env}]}})
    assert owned() == ["", '[name="E"]', '[name="F"]', '[name="F"].name', '[name="F"].value']
    w.update("bob", {"spec": {"containers": [{"name": "c", "env": env[1:]}]}})
    assert owned() == [
        "",
        '[name="E"]',
        '[name="F"]',
        '[name="E"].name',
        '[name="E"].value',
        '[name="F"].name',
        '[name="F"].value',
    ]


def test_an_element_that_cannot_be_told_apart_clears_the_owners(world: Any) -> None:
    w = world("v1", "ServiceAccount")
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    w.update("bob", {"secrets": [{}]})
    assert w.owners() == {}


def test_an_empty_list_is_owned_although_null_is_stored(world: Any) -> None:
    w = world("resource.k8s.io/v1beta1", "ResourceSlice")
    w.create("alice", {"spec": {"driver": "d", "devices": []}})
    assert w.live["spec"]["devices"] is None
    assert w.owners() == {"Update alice": [".spec.devices", ".spec.driver"]}
    w.update("bob", {"spec": {"devices": []}})
    assert w.owners() == {"Update alice": [".spec.driver"], "Update bob": [".spec.devices"]}


@pytest.mark.parametrize(
    ("value", "owner"),
    [("1Gi", "alice"), ("8Gi", "alice"), ("8192Mi", "alice"), ("1024Mi", "bob"), ("1500m", "alice"), ("1.5", "bob")],
)
def test_a_quantity_in_an_atomic_list_that_is_spelt_otherwise(world: Any, value: str, owner: str) -> None:
    """Such lists are compared as Go values, of which what is sent may be another one than what is stored."""
    w = world("resource.k8s.io/v1beta1", "ResourceSlice")
    devices = [{"name": "d", "basic": {"capacity": {"memory": {"value": value}}}}]
    w.create("alice", {"spec": {"devices": devices}})
    w.update("bob", {"spec": {"devices": devices}})
    assert w.owners() == {f"Update {owner}": [".spec.devices"]}


def test_a_quantity_behind_a_pointer_in_an_atomic_list(world: Any) -> None:
    """Whoever writes anything takes it, unless it is one that Go keeps as a text from the start."""
    for value, owner in (("1Gi", "alice"), ("8Gi", "bob")):
        w = world("autoscaling/v2", "HorizontalPodAutoscaler")
        target = {"type": "AverageValue", "averageValue": value}
        w.create("alice", {"spec": {"metrics": [{"type": "Resource", "resource": {"name": "m", "target": target}}]}})
        w.update("bob", {"metadata": {"labels": {"a": "1"}}})
        assert ".spec.metrics" in w.owners()[f"Update {owner}"]


@pytest.mark.parametrize(("sent", "owner"), [([], "bob"), (None, "alice")])
def test_an_empty_list_in_an_element_of_an_atomic_list(world: Any, sent: Any, owner: str) -> None:
    """It is another Go value than the null that is stored."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim")
    request = {"name": "r", "deviceClassName": "c"}
    w.create("alice", {"spec": {"devices": {"requests": [request]}}})
    w.update("bob", {"spec": {"devices": {"requests": [{**request, "selectors": sent}]}}})
    assert w.owners() == {f"Update {owner}": [".spec.devices.requests"]}


def test_of_many_updaters_the_oldest_become_one(world: Any) -> None:
    w = world()
    w.create("m00", {"data": {"k00": "1"}})
    for i in range(1, 12):
        w.update(f"m{i:02}", {"data": {f"k{i:02}": "1"}})
    owners = w.owners()
    assert list(owners) == ["Update ancient-changes", *(f"Update m{i:02}" for i in range(3, 12))]
    assert owners["Update ancient-changes"] == [".data", ".data.k00", ".data.k01", ".data.k02"]
    assert w.times()["Update ancient-changes"] == "03"


def test_those_who_apply_do_not_count_as_updaters(world: Any) -> None:
    w = world()
    for i in range(12):
        w.apply(f"m{i:02}", {"data": {f"k{i:02}": "1"}})
    assert len(w.owners()) == 12


def test_a_change_of_nothing_but_times_is_none(world: Any) -> None:
    w = world()
    old = w.create("alice", {"data": {"a": "1"}})
    entry = old["metadata"]["managedFields"][0] | {"time": "2025-01-01T00:00:00Z"}
    new = old | {"metadata": old["metadata"] | {"managedFields": [entry]}}
    assert ignore_timestamps(old, new) == old
    assert ignore_timestamps(old, new | {"data": {"a": "2"}})["metadata"]["managedFields"] == [entry]


NAMES = [
    ("given", "agent/1.0", "given"),
    ("", "kubectl/v1.32 (linux/amd64) kubernetes/abc", "kubectl"),
    ("", "no slash", "no slash"),
    ("", "", ""),
    ("", "a\x07b\u200bc", "abc"),
    ("", "q" * 200 + "/1", "q" * 128),
    ("", "é" * 100, "é" * 64),
]


@pytest.mark.parametrize(("given", "agent", "name"), NAMES)
def test_the_name_of_a_manager(given: str, agent: str, name: str) -> None:
    assert manager_name(given, agent) == name


def test_a_manager_without_a_name_is_unknown(world: Any) -> None:
    w = world()
    w.create("", {"data": {"a": "1"}})
    assert list(w.owners()) == ["Update unknown"]


REFUSED = [
    ("fine name", []),
    ("é" * 64, []),
    ("é" * 65, ["fieldManager: Too long: may not be more than 128 bytes"]),
    ("bad\nname", ['fieldManager: Invalid value: "bad\\nname": invalid character U+000A (at position 3)']),
    ("é\x07", ['fieldManager: Invalid value: "é\\a": invalid character U+0007 (at position 2)']),
]


@pytest.mark.parametrize(("name", "messages"), REFUSED)
def test_names_that_are_refused(name: str, messages: list[str]) -> None:
    assert [error.text(V1_32) for error in validate_field_manager(name, Path("fieldManager"))] == messages
