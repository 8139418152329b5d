"""Explanations of why claims cannot be allocated: which device fails which rule."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.allocator.objects import (
    NODE,
    allocated,
    allocator,
    attributes,
    claim,
    device,
    request,
    slice_,
)
from understudy.machinery.types import Obj

COUNTERS = {"name": "set", "counters": {"memory": {"value": "8Gi"}}}


def consumes(amount: str) -> list[Obj]:
    return [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]


PARTITIONS = [
    slice_(name="counters", count=2, sharedCounters=[COUNTERS]),
    slice_(
        device("gpu-0", consumesCounters=consumes("6Gi")), device("gpu-1", consumesCounters=consumes("4Gi")), count=2
    ),
]
SHARED = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
MATCH: Obj = {"constraints": [{"matchAttribute": "gpu.example.com/numa"}]}
SHARE: Obj = {"shareID": "1", "consumedCapacity": {"memory": "6Gi"}}
TAINT = {"key": "old", "value": "yes", "effect": "NoSchedule"}
PER_DEVICE: Obj = {"perDeviceNodeSelection": True}


NO_KEY = (
    "CEL runtime error: no such key: y. consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)
# The slices, the claims in use, the claim, and what is said of its devices.
CASES: dict[str, tuple[list[Obj], list[Obj], Obj, list[tuple[str, str]]]] = {
    "in use": (
        [slice_(device("gpu-0"))],
        [allocated("gpu-0")],
        claim(request()),
        [("InUse", "in use by claim default/other")],
    ),
    "selector is false": (
        [slice_(device("gpu-0"))],
        [],
        claim(request(expression='device.driver == "x"')),
        [("SelectorFalse", 'selector #0 of claim default/claim is false: device.driver == "x"')],
    ),
    "selector fails": (
        [slice_(device("gpu-0"))],
        [],
        claim(request(expression='device.attributes["x"].y == 1')),
        [("SelectorError", f"claim default/claim: selector #0 on device gpu.example.com/pool/gpu-0: {NO_KEY}")],
    ),
    "other node": (
        [slice_(device("gpu-0", nodeName="other"), device("gpu-1", nodeName="node"), **PER_DEVICE)],
        [],
        claim(request(count=2)),
        [("OtherNode", "is for other nodes"), ("Fits", "fits")],
    ),
    "taint": (
        [slice_(device("gpu-0", taints=[TAINT]))],
        [],
        claim(request()),
        [("TaintNotTolerated", "taint old=yes:NoSchedule is not tolerated")],
    ),
    "counters taken by devices in use": (
        PARTITIONS,
        [allocated("gpu-0")],
        claim(request()),
        [
            ("InUse", "in use by claim default/other"),
            ("CountersExhausted", "needs more of counter set/memory than is left"),
        ],
    ),
    "counters taken by devices of the claim": (
        PARTITIONS,
        [],
        claim(request(count=2)),
        [("Fits", "fits"), ("CountersExhausted", "needs more of counter set/memory than is left")],
    ),
    "attribute missing": (
        [slice_(device("gpu-0"))],
        [],
        claim(request(), **MATCH),
        [("ConstraintNotSatisfied", "matchAttribute: has no attribute gpu.example.com/numa")],
    ),
    "attributes differ": (
        [slice_(device("gpu-0", attributes=attributes(numa=0)), device("gpu-1", attributes=attributes(numa=1)))],
        [],
        claim(request(count=2), **MATCH),
        [
            ("Fits", "fits"),
            (
                "ConstraintNotSatisfied",
                "matchAttribute: has gpu.example.com/numa 1, the devices before it have 0",
            ),
        ],
    ),
    "attributes do not differ": (
        [slice_(*(device(f"gpu-{i}", attributes=attributes(numa=0)) for i in range(2)))],
        [],
        claim(request("a"), request("b"), constraints=[{"distinctAttribute": "gpu.example.com/numa"}]),
        [("Fits", "fits")] * 2
        + [
            (
                "ConstraintNotSatisfied",
                "distinctAttribute: has gpu.example.com/numa 0, as a device before it: 0",
            ),
        ]
        * 2,
    ),
    "capacity taken by others": (
        [slice_(SHARED)],
        [allocated("gpu-0", **SHARE)],
        claim(request(capacity={"requests": {"memory": "4Gi"}})),
        [("CapacityExhausted", "has less than 4Gi of memory left, shared by claim default/other")],
    ),
    "capacity of a device that has none": (
        [slice_(device("gpu-0"))],
        [],
        claim(request(capacity={"requests": {"cores": "4"}})),
        [("CapacityExhausted", "has no capacity cores")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_device_that_does_not_fit(name: str) -> None:
    """A device of a claim that cannot be allocated is said to fail the rule that it fails."""
    slices, in_use, obj, expected = CASES[name]
    explanation = allocator(*slices, in_use=in_use).explain(NODE, [obj])
    assert not explanation.fits
    verdicts = [verdict for request in explanation.claims[0].requests for verdict in request.devices]
    assert [(verdict.reason.value, verdict.message) for verdict in verdicts[-len(expected) :]] == expected


ZONE_B = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
POOLS: dict[str, tuple[list[Obj], str]] = {
    "incomplete": (
        [slice_(device("a"), count=2)],
        "pool gpu.example.com/pool is incomplete: generation 1 has 1 of 2 slices, no device is taken",
    ),
    "invalid": (
        [slice_(device("a"), device("a"))],
        "pool gpu.example.com/pool is invalid: duplicate device name a",
    ),
    "other nodes": (
        [slice_(device("a"), nodeSelector={"nodeSelectorTerms": [ZONE_B]})],
        "slice slice is for other nodes",
    ),
    "older": (
        [slice_(device("a"), name="old"), slice_(name="new", generation=2)],
        "slice old is of an older generation of pool gpu.example.com/pool",
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_pool_that_is_left_out(name: str) -> None:
    """A pool or slice whose devices are not considered is named, with the reason."""
    slices, note = POOLS[name]
    explanation = allocator(*slices).explain(NODE, [claim(request())])
    assert not explanation.fits
    assert list(explanation.pools) == [note]


def test_feature_that_is_off() -> None:
    """A device that needs a feature which is off is said to need it."""
    bound = slice_(device("gpu-0", bindingConditions=["ready"]))
    explanation = allocator(bound, DRADeviceBindingConditions=False).explain(NODE, [claim(request())])
    assert [line.strip() for line in explanation.lines()][-1].endswith("has binding conditions, which are off")


@pytest.mark.parametrize("gate", ["DRADeviceBindingConditions", "DRAPartitionableDevices"])
def test_device_that_needs_no_feature(gate: str) -> None:
    """A device fits without a feature that it does not need."""
    off: dict[str, Any] = {gate: False}
    explanation = allocator(slice_(device("gpu-0")), **off).explain(NODE, [claim(request(count=2))])
    assert [line.strip() for line in explanation.lines()][-1] == "gpu.example.com/pool/gpu-0: fits"


@pytest.mark.parametrize(
    ("requests", "line"),
    [
        ([request("a", count=3)], "request a: 2 of 3 devices found"),
        ([request("a"), request("b")], "request a: 2 of 1 devices found, but not together with what else is asked for"),
    ],
)
def test_devices_that_are_not_enough(requests: list[Obj], line: str) -> None:
    """Too few devices, and enough of them that are refused together, are told apart."""
    same = slice_(*(device(f"gpu-{i}", attributes=attributes(numa=0)) for i in range(2)))
    apart = [{"distinctAttribute": "gpu.example.com/numa"}]
    explanation = allocator(same).explain(NODE, [claim(*requests, constraints=apart if len(requests) > 1 else [])])
    assert f"  default/claim: {line}" in list(explanation.lines())


def test_claim_that_is_wrong() -> None:
    """The error of the claim itself is told, once."""
    explanation = allocator(slice_(device("a"))).explain(NODE, [claim(request(deviceClassName="none"))])
    error = 'could not retrieve device class none: deviceclass.resource.k8s.io "none" not found'
    assert list(explanation.lines()) == [f"node node: claim default/claim, request r: {error}"]


def test_wrong_node_selector() -> None:
    """A slice whose node selector cannot be read is the error of every claim, since nothing can be allocated."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]
    elsewhere = slice_(device("b"), name="elsewhere", pool="other", nodeName="other")
    wrong = slice_(device("a"), nodeSelector={"nodeSelectorTerms": terms})
    explanation = allocator(wrong, elsewhere).explain(NODE, [claim(request())])
    [line] = explanation.lines()
    assert line.startswith("node node: gather pool information: failed to perform node selection for slice slice: ")
    assert [each.error for each in explanation.claims] == [explanation.error]


def test_wrong_node_selector_of_a_device() -> None:
    """A device whose node selector cannot be read is in the way of the claims that come to it."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["x"]}]}]}
    slices = [slice_(device("a", nodeName="node"), device("b", nodeSelector=selector), **PER_DEVICE)]
    explanation = allocator(*slices).explain(NODE, [claim(request(count=2))])
    assert explanation.error.startswith("failed to parse node selector &NodeSelector{")
    assert [verdict.reason.value for verdict in explanation.claims[0].requests[0].devices] == ["Fits", "SelectorError"]


def test_all_devices_with_one_in_use() -> None:
    """A request for all devices names the one that is in the way."""
    explanation = allocator(slice_(device("a"), device("b")), in_use=[allocated("b")]).explain(
        NODE, [claim(request(allocationMode="All"))]
    )
    assert list(explanation.lines()) == [
        "node node: does not fit",
        "  default/claim: request r: asks for all devices, 1 fit",
        "    gpu.example.com/pool/a: fits",
        "    gpu.example.com/pool/b: in use by claim default/other",
    ]


def test_claims_that_fit() -> None:
    """Claims that fit are told with their devices."""
    explanation = allocator(slice_(device("a"))).explain(NODE, [claim(request())])
    assert explanation.fits
    line = "  default/claim: request r gets gpu.example.com/pool/a"
    assert list(explanation.lines()) == ["node node: fits", line]


def test_devices_with_the_same_verdict_share_a_line() -> None:
    """Devices of which the same is said are listed together; only some of many are named."""
    explanation = allocator(slice_(*(device(f"d{i}") for i in range(6)))).explain(
        NODE, [claim(request(expression="false"))]
    )
    names = ", ".join(f"gpu.example.com/pool/d{i}" for i in range(4))
    assert (
        list(explanation.lines())[-1] == f"    {names} and 2 more: selector #0 of claim default/claim is false: false"
    )


def test_search_that_takes_too_long() -> None:
    """A search that tries too many combinations is given up."""
    devices = [device(f"d{i}", attributes=attributes(numa=i)) for i in range(20)]
    explanation = allocator(slice_(*devices)).explain(NODE, [claim(request(count=2), **MATCH)], steps=10)
    assert explanation.error == "no solution found in 10 steps, the search was given up"
