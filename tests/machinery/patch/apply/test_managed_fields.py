"""Managed fields through creates, updates and patches, as stories; and the names of managers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.machinery.patch.apply.managed_fields import ignore_timestamps
from understudy.machinery.patch.apply.manager_names import manager_name, validate_field_manager
from understudy.machinery.patch.structured_merge_diff.typed import DEDUCED, InvalidValue, ListType, StructType, type_of
from understudy.machinery.releases.version import V1_36
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path

MINE = {"manager": "me", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
SENT = MINE | {"time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}}


def test_creator_owns_all_fields(world: Any) -> None:
    """The manager of a create owns every field that is set."""
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


def test_empty_object_has_no_managed_fields(world: Any) -> None:
    """An object without any owned field has no managedFields."""
    w = world()
    assert w.create("alice", {})["metadata"].get("managedFields", []) == []


def test_change_takes_the_field(world: Any) -> None:
    """The manager of a change owns the field from then on."""
    w = world()
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": "2", "c": "3"}})
    assert w.owners() == {"Update alice": [".data", ".data.b"], "Update bob": [".data.a", ".data.c"]}


def test_removed_field_has_no_owner(world: Any) -> None:
    """A field that was removed belongs to nobody."""
    w = world()
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": None}})
    assert w.owners() == {"Update alice": [".data", ".data.b"]}
    w.update("bob", {"data": None})
    assert w.owners() == {}


def test_update_takes_fields_from_appliers(world: Any) -> None:
    """An update takes the changed field from a manager that applied it."""
    w = world()
    w.apply("alice", {"data": {"a": "1", "b": "1"}})
    w.update("bob", {"data": {"a": "2"}})
    assert w.owners() == {"Apply alice": [".data.b"], "Update bob": [".data.a"]}


def test_write_without_change_keeps_times(world: Any) -> None:
    """A write that changes nothing keeps the times of all entries."""
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("alice", {"data": {"a": "1"}})
    assert w.times() == {"Update alice": "01"}
    w.update("alice", {"data": {"a": "2"}})
    assert w.times() == {"Update alice": "03"}


def test_one_entry_per_subresource_and_version(world: Any) -> None:
    """A manager has an entry of its own for each subresource and version."""
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


def test_reset_fields_are_not_owned(world: Any) -> None:
    """Fields that a request cannot change do not become its manager's."""
    w = world(
        "resource.k8s.io/v1beta1", "ResourceClaim", main=(("status",),), status=(("spec",), ("metadata", "labels"))
    )
    w.create("alice", {"metadata": {"labels": {"a": "1"}}, "status": {"reservedFor": [{"uid": "u"}]}})
    assert w.owners() == {"Update alice": [".metadata.labels", ".metadata.labels.a"]}
    w.update("bob", {"metadata": {"labels": {"a": "2"}}}, subresource="status")
    assert w.owners() == {"Update alice": [".metadata.labels", ".metadata.labels.a"]}


@pytest.mark.parametrize("cleared", [[], [{}], [{"manager": "", "operation": ""}]])
def test_cleared_managed_fields_stay_empty(world: Any, cleared: list[Any]) -> None:
    """Managed fields that a client clears stay empty through later updates."""
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("bob", {"metadata": {"managedFields": cleared}})
    w.update("bob", {"data": {"b": "1"}})
    assert w.owners() == {}


def test_sent_managed_fields_are_kept(world: Any) -> None:
    """Entries of managedFields that a client sends replace the stored ones."""
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
def test_malformed_entries_are_ignored(world: Any, sent: list[Any]) -> None:
    """managedFields with a malformed entry are treated as if none were sent."""
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    before = w.live["metadata"]["managedFields"]
    w.update("bob", {"metadata": {"managedFields": sent}})
    assert w.live["metadata"]["managedFields"] == before


def test_subresource_ignores_sent_managed_fields(world: Any) -> None:
    """managedFields in a write of a subresource are ignored."""
    w = world("v1", "Pod")
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    w.update("bob", {"metadata": {"managedFields": [{}]}}, subresource="status")
    assert list(w.owners()) == ["Update alice"]


def test_change_inside_an_atomic_field_owns_all_of_it(world: Any) -> None:
    """A change inside an atomic field makes its manager owner of the whole field."""
    w = world("v1", "Pod")
    w.create("alice", {"spec": {"nodeSelector": {"a": "1"}}})
    w.update(
        "alice", {"metadata": {"managedFields": [SENT | {"fieldsV1": {"f:spec": {"f:nodeSelector": {"f:a": {}}}}}]}}
    )
    assert w.owners() == {"Update me": [".spec.nodeSelector"]}


def test_sent_fields_are_normalised(world: Any) -> None:
    """The fieldsV1 of a sent entry is sorted, and unknown path elements are dropped."""
    w = world()
    fields: Obj = {"f:data": {"f:b": {}, ".": {}, "f:a": {}, 'x:"unknown"': {}}}
    w.create("alice", {"data": {"a": "1", "b": "1"}})
    w.update("alice", {"metadata": {"managedFields": [SENT | {"fieldsV1": fields}]}})
    assert str(w.live["metadata"]["managedFields"][0]["fieldsV1"]) == "{'f:data': {'.': {}, 'f:a': {}, 'f:b': {}}}"


def test_elements_are_ordered_by_key_values(world: Any) -> None:
    """Elements in fieldsV1 are ordered by the values of their keys."""
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


def test_duplicate_elements_are_owned_without_their_fields(world: Any) -> None:
    """Elements with the same key are owned together, without the fields inside them."""
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


def test_element_without_key_clears_managed_fields(world: Any) -> None:
    """An element without its key makes the server drop all managed fields."""
    w = world("v1", "ServiceAccount")
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    w.update("bob", {"secrets": [{}]})
    assert w.owners() == {}


def test_empty_list_is_owned(world: Any) -> None:
    """An empty list is owned, although null is stored for it."""
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
def test_respelt_quantity_in_an_atomic_list(world: Any, value: str, owner: str) -> None:
    """Atomic lists are compared as Go values, in which a quantity spelt otherwise can differ from the stored one."""
    w = world("resource.k8s.io/v1beta1", "ResourceSlice")
    devices = [{"name": "d", "basic": {"capacity": {"memory": {"value": value}}}}]
    w.create("alice", {"spec": {"devices": devices}})
    w.update("bob", {"spec": {"devices": devices}})
    assert w.owners() == {f"Update {owner}": [".spec.devices"]}


def test_missing_quantity_in_an_atomic_list(world: Any) -> None:
    """A quantity that is left out differs from the 0 that is stored for it."""
    w = world("resource.k8s.io/v1beta1", "ResourceSlice")
    devices = [{"name": "d", "basic": {"capacity": {"memory": {}}}}]
    w.create("alice", {"spec": {"devices": devices}})
    w.update("bob", {"spec": {"devices": devices}})
    assert w.owners() == {"Update bob": [".spec.devices"]}


def test_quantity_pointer_in_an_atomic_list(world: Any) -> None:
    """A quantity behind a pointer differs with every write, unless Go keeps it as text from the start."""
    for value, owner in (("1Gi", "alice"), ("8Gi", "bob")):
        w = world("autoscaling/v2", "HorizontalPodAutoscaler")
        target = {"type": "AverageValue", "averageValue": value}
        w.create("alice", {"spec": {"metrics": [{"type": "Resource", "resource": {"name": "m", "target": target}}]}})
        w.update("bob", {"metadata": {"labels": {"a": "1"}}})
        assert ".spec.metrics" in w.owners()[f"Update {owner}"]


@pytest.mark.parametrize(("sent", "owner"), [([], "bob"), (None, "alice")])
def test_empty_list_in_an_atomic_list_differs_from_null(world: Any, sent: Any, owner: str) -> None:
    """An empty list inside an atomic list is another Go value than the stored null."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim")
    request = {"name": "r", "deviceClassName": "c"}
    w.create("alice", {"spec": {"devices": {"requests": [request]}}})
    w.update("bob", {"spec": {"devices": {"requests": [{**request, "selectors": sent}]}}})
    assert w.owners() == {f"Update {owner}": [".spec.devices.requests"]}


def test_oldest_updaters_are_merged(world: Any) -> None:
    """Beyond ten updaters the oldest entries become one, `ancient-changes`."""
    w = world()
    w.create("m00", {"data": {"k00": "1"}})
    for i in range(1, 12):
        w.update(f"m{i:02}", {"data": {f"k{i:02}": "1"}})
    owners = w.owners()
    assert list(owners) == ["Update ancient-changes", *(f"Update m{i:02}" for i in range(3, 12))]
    assert owners["Update ancient-changes"] == [".data", ".data.k00", ".data.k01", ".data.k02"]
    assert w.times()["Update ancient-changes"] == "03"


def test_appliers_are_not_merged(world: Any) -> None:
    """Entries of applies do not count towards the limit of updaters."""
    w = world()
    for i in range(12):
        w.apply(f"m{i:02}", {"data": {f"k{i:02}": "1"}})
    assert len(w.owners()) == 12


def test_change_of_times_only_is_no_change(world: Any) -> None:
    """A write that would only change times of managedFields changes nothing."""
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


@pytest.mark.parametrize(("field_manager", "agent", "name"), NAMES)
def test_manager_name_comes_from_the_user_agent(field_manager: str, agent: str, name: str) -> None:
    """Without fieldManager the manager is the first part of the User-Agent."""
    assert manager_name(field_manager, agent) == name


def test_manager_without_a_name_is_unknown(world: Any) -> None:
    """Without fieldManager and User-Agent the manager is "unknown"."""
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
def test_invalid_manager_names_are_refused(name: str, messages: list[str]) -> None:
    """A fieldManager that is too long or not printable is refused."""
    assert [error.text(NEWEST) for error in validate_field_manager(name, Path("fieldManager"))] == messages


def test_element_is_identified_by_the_keys_that_it_has() -> None:
    """Since 1.34 an element of a list may leave out keys that have no default, but not all; before it needs all."""
    lenient, strict = (ListType(lambda: DEDUCED, ("b", "a"), needs_all_keys=strict) for strict in (False, True))
    assert lenient.path_element({"a": 1, "b": 2}) == strict.path_element({"a": 1, "b": 2}) == 'k:{"a":1,"b":2}'
    assert lenient.path_element({"a": 1}) == 'k:{"a":1}'
    with pytest.raises(InvalidValue, match=r'an element that omits key field "b" '):
        strict.path_element({"a": 1})
    with pytest.raises(InvalidValue, match=r'an element that omits all key fields \["b" "a"\] '):
        lenient.path_element({"c": 1})


def test_device_status_may_leave_out_its_share() -> None:
    status = type_of(Schemas.of(V1_36).kind("resource.k8s.io", "v1", "ResourceClaim")).type_of("status")
    assert isinstance(status, StructType)
    devices = status.type_of("devices")
    assert isinstance(devices, ListType)
    device = {"driver": "a", "pool": "p", "device": "d"}
    assert devices.path_element(device) == 'k:{"device":"d","driver":"a","pool":"p"}'
    assert devices.path_element({**device, "shareID": "x"}) == 'k:{"device":"d","driver":"a","pool":"p","shareID":"x"}'
