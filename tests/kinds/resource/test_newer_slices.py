"""Slices, taint rules and requests for the status of pools since 1.33: what each release refuses, and what it drops."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from understudy.kinds.resource.slices import resourcepoolstatusrequest
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, V1_35, V1_36, V1_37, Version
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path
from understudy.offline.validator import Validator

GATES = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAPartitionableDevices",
)
SINCE_1_33 = (V1_36, V1_35, V1_34, V1_33)
SINCE_1_34 = (V1_36, V1_35, V1_34)
SINCE_1_35 = (V1_36, V1_35)
UNTIL_1_35 = (V1_35, V1_34, V1_33)
UNTIL_1_34 = (V1_34, V1_33)
ONLY_1_36 = (V1_36,)


def prepared(
    release: Version, kind: str, version: str, spec: Obj, *, gates: bool | Mapping[str, bool] = True
) -> tuple[Obj, list[str]]:
    """Return a new object of a kind as it would be stored, and its errors; `gates`: all on or off, or more that are."""
    on = {gate: bool(gates) for gate in GATES if gate in Gates.of(release).in_force()}
    on |= gates if isinstance(gates, Mapping) else {}
    validator = Validator.of(str(release), on)
    served = validator.release.kind("resource.k8s.io", kind)
    assert served is not None
    decoded, _ = decode_json(encode({"metadata": {"name": "x"}, "spec": spec}), served.struct(version))
    ctx = validator.context(version)
    obj = validator.internal(served, version, decoded, ctx)
    served.behavior.strategy.prepare_for_create(obj, ctx)
    errors = served.behavior.strategy.validate(obj, ctx)
    return obj, [error.text(release) for error in errors]


def slice_of(release: Version, *, gates: bool | Mapping[str, bool] = True, **spec: Any) -> tuple[Obj, list[str]]:
    version = "v1" if release >= V1_34 else "v1beta2"
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    nodes = {} if "nodes" in spec else {"allNodes": True}
    return prepared(
        release,
        "ResourceSlice",
        version,
        {"driver": "gpu.example.com", "pool": pool, **nodes, **spec.pop("nodes", {}), **spec},
        gates=gates,
    )


def device_errors(release: Version, more: Mapping[str, bool] | None = None, /, **fields: Any) -> list[str]:
    """Return the errors of a slice with one device, with their paths from the device on; `more`: more gates."""
    errors = slice_of(release, gates=more or True, devices=[{"name": "d", **fields}])[1]
    return [error.removeprefix("spec.devices[0]").removeprefix(".") for error in errors]


def cut(errors: list[str], expected: list[str]) -> list[str]:
    """Return errors as long as the expected ones, which need not be whole."""
    if len(errors) != len(expected):
        return errors
    return [error[: len(beginning)] for error, beginning in zip(errors, expected, strict=True)]


COUNTERS = {"c": {"value": "1"}}
SET = {"name": "s", "counters": COUNTERS}
USE = {"counterSet": "s", "counters": COUNTERS}
TAINT = {"key": "k", "effect": "NoSchedule"}
WAYS = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
ONE_VALUE = "exactly one value must be specified"


def many(number: int) -> Obj:
    return {f"c{i}": {"value": "1"} for i in range(number)}


@pytest.mark.parametrize(
    ("releases", "spec", "errors"),
    [
        (SINCE_1_33, {"nodes": {}}, [f"spec: Required value: {WAYS}"]),
        (
            SINCE_1_33,
            {"nodes": {"nodeName": "n", "allNodes": True}},
            [f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {WAYS}, but multiple fields are set'],
        ),
        (
            SINCE_1_33,
            {"nodes": {"nodeName": "", "perDeviceNodeSelection": False, "allNodes": True}},
            [
                'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
                "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true",
            ],
        ),
        (
            SINCE_1_35,
            {"devices": [], "sharedCounters": []},
            ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
        ),
        (UNTIL_1_34, {"devices": [], "sharedCounters": []}, []),
        (SINCE_1_35, {"sharedCounters": [SET, SET]}, ['spec.sharedCounters[1]: Duplicate value: "s"']),
        (UNTIL_1_34, {"sharedCounters": [SET, SET]}, ['spec.sharedCounters[1].name: Duplicate value: "s"']),
        (
            SINCE_1_33,
            {"sharedCounters": [{"counters": {}}]},
            ["spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value"],
        ),
        (
            SINCE_1_35,
            {"sharedCounters": [{"name": f"s{i}", "counters": {}} for i in range(9)]},
            ["spec.sharedCounters: Too many: 9: must have at most 8 items"],
        ),
        (
            SINCE_1_35,
            {"sharedCounters": [{"name": "s", "counters": many(33)}]},
            ["spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items"],
        ),
        (
            UNTIL_1_34,
            {"sharedCounters": [SET, {"name": "t", "counters": many(32)}]},
            ["spec.sharedCounters: Invalid value: 33: the total number of shared counters must not exceed 32"],
        ),
        (
            UNTIL_1_34,
            {
                "sharedCounters": [{"name": "s", "counters": many(32)}],
                "devices": [
                    {"name": f"d{i}", "consumesCounters": [{"counterSet": "s", "counters": many(32)}]}
                    for i in range(33)
                ],
            },
            ["spec.devices: Invalid value: 1056: the total number of counters in devices must not exceed 1024"],
        ),
        (
            UNTIL_1_34,
            {
                "sharedCounters": [{"name": f"s{i}", "counters": COUNTERS} for i in range(3)],
                "devices": [
                    {"name": "d", "consumesCounters": [{"counterSet": f"s{i}", "counters": COUNTERS} for i in range(3)]}
                ],
            },
            [],
        ),
        (SINCE_1_35, {"devices": [{"name": "d", "consumesCounters": [USE]}]}, []),
        (
            UNTIL_1_34,
            {
                "devices": [{"name": "d", "consumesCounters": [USE, {**USE, "counterSet": "t"}]}],
                "sharedCounters": [SET],
            },
            [
                'spec.devices[0].consumesCounters[1].counterSet: Invalid value: "t": '
                "must reference a counterSet defined in the ResourceSlice sharedCounters"
            ],
        ),
        (
            UNTIL_1_34,
            {"devices": [{"name": "d", "consumesCounters": [{**USE, "counters": many(1)}]}], "sharedCounters": [SET]},
            [
                'spec.devices[0].consumesCounters[0].counters: Invalid value: "c0": '
                "must reference a counter defined in the ResourceSlice sharedCounters"
            ],
        ),
        (
            SINCE_1_35,
            {"devices": [{"name": f"d{i}", "taints": [TAINT] if i == 9 else []} for i in range(65)]},
            ["spec.devices: Too many: 65: must have at most 64 items"],
        ),
        (
            SINCE_1_35,
            {"devices": [{"name": f"d{i}", "consumesCounters": [USE] if i == 9 else []} for i in range(65)]},
            ["spec.devices: Too many: 65: must have at most 64 items"],
        ),
        (
            ONLY_1_36,
            {"devices": [{"name": f"d{i}", "attributes": {"a": {"ints": [1]}}} for i in range(65)]},
            ["spec.devices: Too many: 65: must have at most 64 items"],
        ),
        (UNTIL_1_34, {"devices": [{"name": f"d{i}", "taints": [TAINT]} for i in range(128)]}, []),
    ],
)
def test_slice(releases: tuple[Version, ...], spec: Obj, errors: list[str]) -> None:
    for release in releases:
        assert slice_of(release, **spec)[1] == errors


@pytest.mark.parametrize(
    ("releases", "fields", "errors"),
    [
        (ONLY_1_36, {"attributes": {"a-b": {"int": 1}}}, ["attributes: Invalid value"]),
        (UNTIL_1_35, {"attributes": {"a-b": {"int": 1}}}, ["attributes[a-b]: Invalid value"]),
        (SINCE_1_35, {"attributes": {"a": {}}}, [f'attributes[a]: Invalid value: "": {ONE_VALUE}']),
        (UNTIL_1_34, {"attributes": {"a": {}}}, [f"attributes[a]: Required value: {ONE_VALUE}"]),
        (ONLY_1_36, {"attributes": {"a": {"ints": [1], "bools": [True]}}}, ["attributes[a]: Invalid value"]),
        (ONLY_1_36, {"attributes": {"a": {"strings": ["", "b"]}, "b": {"versions": ["1.0.0"]}}}, []),
        (
            ONLY_1_36,
            {"attributes": {"a": {"ints": []}}},
            ["attributes[a].ints: Invalid value: []: must not be empty if specified"],
        ),
        (
            ONLY_1_36,
            {"attributes": {"a": {"versions": ["1.0.0", "1"]}}},
            ['attributes[a].versions[1]: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0'],
        ),
        (
            ONLY_1_36,
            {"attributes": {"a": {"ints": [1] * 48}, "b": {"int": 1}}},
            [": Invalid value: 49: the total number of attribute values must not exceed 48"],
        ),
        (SINCE_1_35, {"taints": [TAINT] * 16}, []),
        (SINCE_1_35, {"taints": [{}] * 17}, ["taints: Too many: 17: must have at most 16 items"]),
        (UNTIL_1_34, {"taints": [TAINT] * 5}, ["taints: Too many: 5: must have at most 4 items"]),
        (SINCE_1_35, {"taints": [{"key": "k", "effect": "None"}]}, []),
        (
            UNTIL_1_34,
            {"taints": [{"key": "k", "effect": "None"}]},
            ['taints[0].effect: Unsupported value: "None": supported values: "NoExecute", "NoSchedule"'],
        ),
        (SINCE_1_33, {"taints": [{"key": "k"}]}, ["taints[0].effect: Required value"]),
        (
            SINCE_1_35,
            {"taints": [{**TAINT, "value": "v" * 64}]},
            [f'taints[0].value: Invalid value: "{"v" * 64}": must be no more than 63 bytes'],
        ),
        (
            UNTIL_1_34,
            {"taints": [{**TAINT, "value": "v" * 64}]},
            [f'taints[0].value: Invalid value: "{"v" * 64}": must be no more than 63 characters'],
        ),
        (SINCE_1_35, {"consumesCounters": [USE] * 3}, ["consumesCounters: Too many: 3: must have at most 2 items"]),
        (
            SINCE_1_35,
            {"consumesCounters": [{**USE, "counterSet": "S"}]},
            ["consumesCounters[0].counterSet: Invalid value"],
        ),
        (
            SINCE_1_34,
            {"nodeName": "n"},
            [
                ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ],
        ),
    ],
)
def test_device(releases: tuple[Version, ...], fields: Obj, errors: list[str]) -> None:
    for release in releases:
        assert cut(device_errors(release, **fields), errors) == errors


@pytest.mark.parametrize(
    ("device", "errors"),
    [
        ({"nodeName": "n"}, []),
        ({}, [": Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when"]),
        ({"nodeName": "", "allNodes": True}, ['nodeName: Invalid value: "": must not be empty']),
        (
            {"nodeName": "n", "allNodes": True},
            [': Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes`'],
        ),
    ],
)
def test_device_with_nodes_of_its_own(device: Obj, errors: list[str]) -> None:
    for release in SINCE_1_33:
        spec: Obj = {"nodes": {"perDeviceNodeSelection": True}, "devices": [{"name": "d", **device}]}
        found = [error.removeprefix("spec.devices[0]").removeprefix(".") for error in slice_of(release, **spec)[1]]
        assert cut(found, errors) == errors


POLICY = "capacity[m].requestPolicy"


@pytest.mark.parametrize(
    ("policy", "errors"),
    [
        ({}, []),
        ({"default": "1", "validValues": ["1", "2"]}, []),
        ({"default": "3", "validRange": {"min": "1", "max": "5", "step": "2"}}, []),
        ({"validValues": ["1"]}, [f"{POLICY}.default: Required value: required when validValues is defined"]),
        ({"validRange": {}}, [f"{POLICY}.default: Required value: required when validRange is defined"]),
        ({"default": "1", "validValues": ["1"], "validRange": {}}, [f"{POLICY}: Forbidden: exactly one policy can be"]),
        (
            {"default": "3", "validValues": ["2", "1", "1000m", "11"]},
            [
                f'{POLICY}.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
                f'{POLICY}.validValues[3]: Invalid value: "11": option is larger than capacity value: 10',
                f'{POLICY}.validValues[2]: Duplicate value: "1"',
                f'{POLICY}.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
            ],
        ),
        (
            {"default": "12", "validRange": {"min": "13", "max": "11"}},
            [
                f'{POLICY}.validRange.min: Invalid value: "13": min is larger than capacity value: 10',
                f'{POLICY}.validRange.min: Invalid value: "12": default is less than min: 13',
                f'{POLICY}.validRange.max: Invalid value: "13": min is larger than max: 11',
                f'{POLICY}.validRange.max: Invalid value: "11": max is larger than capacity value: 10',
                f'{POLICY}.validRange.max: Invalid value: "12": default is more than max: 11',
            ],
        ),
        (
            {"default": "2", "validRange": {"min": "1", "max": "8", "step": "10"}},
            [
                f'{POLICY}.validRange.step: Invalid value: "10": one step 11 is larger than capacity value: 10',
                f'{POLICY}.validRange.step: Invalid value: "2": value is not a multiple of a given step (10) from (1)',
                f'{POLICY}.validRange.step: Invalid value: "8": value is not a multiple of a given step (10) from (1)',
            ],
        ),
        (
            {"default": "1", "validRange": {"min": "1", "step": "0"}},
            [f'{POLICY}.validRange.step: Invalid value: "1": value is not a multiple of a given step (0) from (1)'],
        ),
        ({"default": "1", "validRange": {}}, [f"{POLICY}.validRange.min: Required value: required when validRange is"]),
    ],
)
def test_request_policy(policy: Obj, errors: list[str]) -> None:
    """A step of 0 is refused, where the real server crashes."""
    capacity = {"m": {"value": "10", "requestPolicy": policy}}
    for release in SINCE_1_34:
        assert cut(device_errors(release, allowMultipleAllocations=True, capacity=capacity), errors) == errors
        alone = [f"{POLICY}: Forbidden: allowMultipleAllocations must be true"]
        assert device_errors(release, allowMultipleAllocations=False, capacity=capacity) == alone


RANGE, DEFAULT_AMOUNT = f"{POLICY}.validRange", f"{POLICY}.validRange.default"
NO_STEP = "value is not a multiple of a given step"


@pytest.mark.parametrize(
    ("default", "range_", "errors"),
    [
        ("2", {"min": "1", "max": "8", "step": "1"}, []),
        ("1", {"min": "1", "step": "0"}, [f'{RANGE}.step: Invalid value: "0": must be greater than zero']),
        ("0", {"min": "1"}, [f'{DEFAULT_AMOUNT}: Invalid value: "0": default is less than min: 1']),
        ("9", {"min": "1", "max": "8"}, [f'{DEFAULT_AMOUNT}: Invalid value: "9": default is more than max: 8']),
        (
            "1",
            {"min": "-1", "step": "1"},
            [f'{RANGE}.min: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            "1500m",
            {"min": "1", "step": "1"},
            [f'{RANGE}.step: Invalid value: "1500m": {NO_STEP} (1) from (1)'],
        ),
        ("1500m", {"min": "500m", "step": "500m"}, []),
        ("1", {"min": "-500m", "step": "500m"}, []),
        (
            "1",
            {"min": "1u", "step": "0"},
            [f'{RANGE}.min: Invalid value: "1u": value cannot be represented as a milli value'],
        ),
    ],
)
def test_range_of_a_policy_since_1_37(default: str, range_: Obj, errors: list[str]) -> None:
    """Amounts are whole numbers of 64 bits, or all are thousandths if one has a fraction."""
    gates = {"DRAFractionalCapacityRange": True}
    policy = {"default": default, "validRange": range_}
    capacity = {"m": {"value": "10", "requestPolicy": policy}}
    found = device_errors(V1_37, gates, allowMultipleAllocations=True, capacity=capacity)
    assert cut(found, errors) == errors


DEFAULT = f'{POLICY}.validValues: Invalid value: "1": default value is not valid'


@pytest.mark.parametrize(("release", "more"), [(V1_36, [DEFAULT]), (V1_35, [DEFAULT]), (V1_34, [])])
def test_too_many_values_of_a_policy_hide_the_default(release: Version, more: list[str]) -> None:
    """Since 1.35 the values of a list that is too long are not looked at: the default is none of them."""
    policy = {"default": "1", "validValues": [str(i) for i in range(1, 12)]}
    errors = device_errors(
        release, allowMultipleAllocations=True, capacity={"m": {"value": "99", "requestPolicy": policy}}
    )
    too_many = f"{POLICY}.validValues: Too many: 11: must have at most 10 items"
    expected = [too_many, *more]
    assert cut(errors, expected) == expected


MAPPINGS = "nodeAllocatableResourceMappings"


@pytest.mark.parametrize(
    ("name", "mapping", "errors"),
    [
        ("cpu", {}, []),
        ("cpu", {"capacityKey": "m", "allocationMultiplier": "500m"}, []),
        ("a.b/c", {}, [f'{MAPPINGS}[a.b/c]: Invalid value: "a.b/c": must be a node allocatable resource name']),
        ("cpu", {"capacityKey": "n"}, [f'{MAPPINGS}[cpu].capacityKey: Not found: "n"']),
        (
            "cpu",
            {"capacityKey": ""},
            [f'{MAPPINGS}[cpu].capacityKey: Invalid value: "": capacityKey must not be an empty'],
        ),
        (
            "cpu",
            {"allocationMultiplier": "0"},
            [f'{MAPPINGS}[cpu].allocationMultiplier: Invalid value: "0": must be positive'],
        ),
    ],
)
def test_node_resources_of_a_device(name: str, mapping: Obj, errors: list[str]) -> None:
    assert cut(device_errors(V1_36, capacity={"m": {"value": "1"}}, **{MAPPINGS: {name: mapping}}), errors) == errors


DEVICE = {
    "name": "d",
    "attributes": {"a": {"ints": [1], "int": 1}},
    "capacity": {"m": {"value": "1", "requestPolicy": {}}},
    "consumesCounters": [USE],
    "nodeName": "n",
    "taints": [TAINT],
    "bindsToNode": False,
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
    "allowMultipleAllocations": False,
    MAPPINGS: {"cpu": {}},
}


@pytest.mark.parametrize("release", SINCE_1_33)
def test_gates_drop_fields_of_slices(release: Version) -> None:
    """Fields behind gates that are off are dropped before validation, be they only empty lists."""
    obj, errors = slice_of(release, gates=False, devices=[DEVICE], sharedCounters=[], perDeviceNodeSelection=True)
    assert errors == []
    bare = {"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1"}}}
    assert obj["spec"]["devices"] == [bare]
    assert obj["spec"].keys() == {"driver", "pool", "allNodes", "devices"}


def updated(release: str, stored: Obj, sent: Obj, **gates: bool) -> Obj:
    """Return a slice that is updated as it would be stored; both specs lack the driver and the pool."""
    validator = Validator.of(release, gates)
    kind = validator.release.kind("resource.k8s.io", "ResourceSlice")
    assert kind is not None
    spec = {"driver": "d.io", "pool": {"name": "p"}}
    old, new = ({"metadata": {"generation": 1}, "spec": {**spec, **copy.deepcopy(each)}} for each in (stored, sent))
    kind.behavior.strategy.prepare_for_update(new, old, validator.context("v1"))
    return new


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"allowMultipleAllocations": False}, True),
        ({"capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}, True),
        ({"capacity": {"m": {"value": "1"}}}, False),
        ({}, False),
    ],
    ids=["flag", "policy", "plain capacity", "nothing"],
)
def test_shared_devices_in_use_are_kept(fields: Obj, kept: bool) -> None:
    """An update keeps fields of shared devices without their gate if the stored slice has one of them."""
    sent = {"devices": [{"name": "d", "allowMultipleAllocations": True}]}
    new = updated("1.34", {"devices": [{"name": "d", **fields}]}, sent, DRAConsumableCapacity=False)
    assert ("allowMultipleAllocations" in new["spec"]["devices"][0]) is kept


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ({"sharedCounters": [SET]}, True),
        ({"perDeviceNodeSelection": True}, True),
        ({"devices": [{"name": "d", "nodeName": "n"}]}, True),
        ({"devices": [{"name": "d", "consumesCounters": []}]}, False),
    ],
    ids=["counters", "nodes per device", "node of a device", "nothing"],
)
def test_partitions_in_use_are_kept(stored: Obj, kept: bool) -> None:
    """An update keeps all fields of partitions without their gate if the stored slice has one of them."""
    sent = {"devices": [{"name": "d", "consumesCounters": [USE], "nodeName": "n"}], "sharedCounters": [SET]}
    spec = updated("1.34", stored, sent, DRAPartitionableDevices=False)["spec"]
    assert ("sharedCounters" in spec, "nodeName" in spec["devices"][0]) == (kept, kept)


@pytest.mark.parametrize(
    ("field", "value", "generation"), [("allocationMultiplier", "1000m", 1), ("capacityKey", "1000m", 2)]
)
def test_names_of_capacities_are_no_amounts(field: str, value: str, generation: int) -> None:
    """An amount in other words is no change of a slice, a name is."""
    stored, sent = ({"devices": [{"name": "d", MAPPINGS: {"cpu": {field: each}}}]} for each in ("1", value))
    new = updated("1.36", stored, sent, DRANodeAllocatableResources=True)
    assert new["metadata"]["generation"] == generation


@pytest.mark.parametrize(("release", "warnings"), [(V1_36, 1), (V1_35, 1), (V1_34, 0)])
def test_driver_in_upper_case_is_warned_of(release: Version, warnings: int) -> None:
    validator = Validator.of(str(release))
    kind = validator.release.kind("resource.k8s.io", "ResourceSlice")
    assert kind is not None
    ctx = validator.context("v1")
    kind.behavior.strategy.warn_create({"spec": {"driver": "GPU.example.com"}}, ctx)
    text = 'spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters'
    assert ctx.warnings == [text] * warnings


# --- DeviceTaintRule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("releases", "spec", "errors"),
    [
        (SINCE_1_33, {"taint": TAINT}, []),
        (SINCE_1_33, {}, ['spec.taint.key: Invalid value: "": name part', "", "spec.taint.effect: Required value"]),
        (SINCE_1_33, {"taint": TAINT, "deviceSelector": {"pool": ""}}, ["spec.deviceSelector.pool: Required value"]),
        (
            SINCE_1_35,
            {"taint": TAINT, "deviceSelector": {"driver": ""}},
            ["spec.deviceSelector.driver: Required value"],
        ),
        (
            UNTIL_1_34,
            {"taint": TAINT, "deviceSelector": {"deviceClassName": "A", "selectors": [{}]}},
            ["spec.deviceSelector.deviceClassName: Invalid", "spec.deviceSelector.selectors[0].cel: Required value"],
        ),
        (SINCE_1_35, {"taint": TAINT, "deviceSelector": {"deviceClassName": "A", "selectors": [{}]}}, []),
    ],
)
def test_taint_rule(releases: tuple[Version, ...], spec: Obj, errors: list[str]) -> None:
    for release in releases:
        assert cut(prepared(release, "DeviceTaintRule", "v1alpha3", spec)[1], errors) == errors


def test_new_taint_rule_has_no_status() -> None:
    validator = Validator.of("1.36")
    kind = validator.release.kind("resource.k8s.io", "DeviceTaintRule")
    assert kind is not None
    new: Obj = {"metadata": {}, "spec": {"taint": TAINT}, "status": {"conditions": [{}]}}
    kind.behavior.strategy.prepare_for_create(new, validator.context("v1alpha3"))
    assert new["status"] == {}


@pytest.mark.parametrize(
    ("release", "sent", "is_new"),
    [
        (V1_36, {"effect": "NoExecute"}, True),
        (V1_36, {"effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}, False),
        (V1_36, {"value": "v"}, False),
        (V1_35, {"effect": "NoExecute"}, False),
    ],
)
def test_taint_with_a_new_effect_is_added_anew(release: Version, sent: Obj, is_new: bool) -> None:
    """Since 1.36 a taint is added when its effect changes, unless the client says when."""
    stored = {"key": "k", "effect": "NoSchedule", "timeAdded": "2023-01-01T00:00:00Z"}
    validator = Validator.of(str(release))
    kind = validator.release.kind("resource.k8s.io", "DeviceTaintRule")
    assert kind is not None
    old = {"metadata": {"generation": 1}, "spec": {"taint": stored}, "status": {}}
    new: Obj = {"metadata": {}, "spec": {"taint": {**stored, **sent}}, "status": {"conditions": [{}]}}
    ctx = validator.context("v1alpha3")
    kind.behavior.strategy.prepare_for_update(new, old, ctx)
    assert (new["spec"]["taint"]["timeAdded"] == ctx.now) is is_new
    assert (new["metadata"], new["status"]) == ({"generation": 2}, {})


# --- ResourcePoolStatusRequest ----------------------------------------------------------------------------------------

POOL = {"driver": "gpu.example.com", "poolName": "p", "generation": 1}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"driver": "GPU.example.com"}, []),
        ({"driver": "d" * 254}, [f'spec.driver: Invalid value: "{"d" * 254}": must be no more than 253 bytes']),
        ({"driver": "a_b"}, ['spec.driver: Invalid value: "a_b": an RFC 1123 subdomain must consist of alphanumeric']),
        ({"poolName": "a"}, ["spec.driver: Required value"]),
        (
            {"driver": "d", "poolName": "a//B"},
            [
                'spec.poolName: Invalid value: "a//B": segment 1: must not be empty',
                'spec.poolName: Invalid value: "B": segment 2: a lowercase RFC 1123 subdomain',
            ],
        ),
        ({"driver": "d", "limit": 0}, ["spec.limit: Invalid value: 0: must be greater than or equal to 1"]),
        ({"driver": "d", "limit": 1001}, ["spec.limit: Invalid value: 1001: must be less than or equal to 1000"]),
    ],
)
def test_pool_status_request(spec: Obj, errors: list[str]) -> None:
    obj, found = prepared(V1_36, "ResourcePoolStatusRequest", "v1alpha3", spec)
    assert cut(found, errors) == errors
    assert obj["spec"]["limit"] == spec.get("limit", 100)


SET_STATUS = {"poolCount": 1, "pools": [POOL]}
CONDITION = {"type": "Complete", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "old", "errors"),
    [
        (SET_STATUS, None, []),
        (SET_STATUS, SET_STATUS, []),
        (None, SET_STATUS, ["status: Invalid value: null: field is immutable"]),
        ({}, None, ["status.poolCount: Required value"]),
        (
            {**SET_STATUS, "poolCount": -1},
            SET_STATUS,
            [
                'status: Invalid value: {"PoolCount":-1,"Pools":[{"Driver":"gpu.example.com"',
                "status.poolCount: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        ({**SET_STATUS, "conditions": [CONDITION, {**CONDITION, "type": "Failed"}]}, None, []),
        (
            {**SET_STATUS, "conditions": [{**CONDITION, "type": f"T{i}"} for i in range(11)]},
            None,
            ["status.conditions: Too many: 11: must have at most 10 items"],
        ),
        ({"poolCount": 1, "pools": [{**POOL, "validationError": "e" * 256}]}, None, []),
        ({"poolCount": 1, "pools": [{**POOL, "generation": 0}]}, None, ["status.pools[0].generation: Required value"]),
        (
            {
                "poolCount": 1,
                "pools": [{**POOL, "resourceSliceCount": 0, "nodeName": "", "validationError": "e" * 257}],
            },
            None,
            [
                "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
                'status.pools[0].nodeName: Invalid value: "": a lowercase RFC 1123 subdomain',
                "status.pools[0].validationError: Too long: may not be more than 256 bytes",
            ],
        ),
        (
            {"poolCount": 1, "pools": [POOL] * 1001},
            None,
            ["status.pools: Too many: 1001: must have at most 1000 items"],
        ),
    ],
)
def test_status_of_pools_is_set_once(status: Obj | None, old: Obj | None, errors: list[str]) -> None:
    found = resourcepoolstatusrequest.validate_status(status, old, Path("status"), V1_36)
    assert cut([error.text(V1_36) for error in found], errors) == errors


def test_declared_rules_of_pools_are_checked_elsewhere_since_1_37() -> None:
    assert resourcepoolstatusrequest.validate_status({}, None, Path("status"), V1_37) == []


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        (None, ["-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
        (
            {"poolCount": 2, "pools": [{**POOL, "totalDevices": 3, "availableDevices": 1, "validationError": "e"}]},
            ["3", "1", "0", "0", "1", 2, "Pending", "<none>"],
        ),
        (
            {
                "poolCount": 2,
                "pools": [POOL],
                "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
            },
            ["0", "0", "0", "0", "0", 2, "Complete (1/2 pools)", "9s"],
        ),
        (
            {
                "poolCount": 0,
                "conditions": [{"type": "Complete", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
            ["0", "0", "0", "0", "0", 0, "Pending", "<none>"],
        ),
        (
            {"poolCount": 0, "conditions": [{"type": "Failed", "status": "True"}]},
            ["-", "-", "-", "-", "-", 0, "Failed", "<none>"],
        ),
    ],
)
def test_table_row_of_a_pool_status_request(status: Obj | None, cells: list[Any]) -> None:
    kind = Validator.of("1.36").release.kind("resource.k8s.io", "ResourcePoolStatusRequest")
    assert kind is not None
    assert kind.behavior.table_row is not None
    obj = {"metadata": {"name": "n"}, "spec": {"driver": "d"}, **({"status": status} if status is not None else {})}
    assert kind.behavior.table_row(obj, 9.0) == ["n", "d", *cells]
