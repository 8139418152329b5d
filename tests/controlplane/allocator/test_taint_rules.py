"""DeviceTaintRules: which devices of a slice they taint for allocations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.allocator.objects import DRIVER, attributes, device, slice_
from understudy.controlplane.allocator.checks.taint_rules import RuleMatcher
from understudy.machinery.releases.version import V1_34, V1_36, Version
from understudy.machinery.types import Obj

TAINT = {"key": "rule", "effect": "NoSchedule"}
SELECTOR = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a"'}}
SHARED = {"cel": {"expression": "device.allowMultipleAllocations"}}
CLASSES: dict[str, Obj] = {"a": {"metadata": {"name": "a"}, "spec": {"selectors": [SELECTOR]}}}
SLICE = slice_(
    device("x", attributes=attributes(model="a")), device("y", taints=[{"key": "own"}], allowMultipleAllocations=True)
)


def tainted(release: Version, slice_: Obj, selector: dict[str, Any] | None) -> list[str]:
    rule = {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": TAINT}}
    result = RuleMatcher(release, CLASSES.get).tainted(slice_, [rule])
    devices = [device.get("basic") or device for device in result["spec"]["devices"]]
    names = [device["name"] for device in slice_["spec"]["devices"]]
    return [name for name, device in zip(names, devices, strict=True) if TAINT in device.get("taints", [])]


@pytest.mark.parametrize(
    ("release", "selector", "devices"),
    [
        (V1_36, None, ["x", "y"]),
        (V1_36, {}, ["x", "y"]),
        (V1_36, {"driver": DRIVER, "pool": "pool"}, ["x", "y"]),
        (V1_36, {"driver": "other"}, []),
        (V1_36, {"pool": "other"}, []),
        (V1_36, {"device": "y"}, ["y"]),
        (V1_34, None, ["x", "y"]),
        (V1_34, {"deviceClassName": "a"}, ["x"]),
        (V1_34, {"deviceClassName": "none"}, []),
        (V1_34, {"selectors": [SELECTOR]}, ["x"]),
        (V1_34, {"selectors": [SHARED]}, []),
    ],
)
def test_devices_of_a_rule(release: Version, selector: dict[str, Any] | None, devices: list[str]) -> None:
    """A rule taints the devices that its selector matches, all without one; up to 1.34 by class and CEL, too."""
    assert tainted(release, SLICE, selector) == devices


def test_slice_is_not_edited() -> None:
    """Taints are added to those of the driver in a new slice; a slice that no rule concerns is returned as it is."""
    matcher = RuleMatcher(V1_36, CLASSES.get)
    rule = {"spec": {"deviceSelector": {"device": "y"}, "taint": TAINT}}
    result = matcher.tainted(SLICE, [rule, rule])
    assert result["spec"]["devices"][1]["taints"] == [{"key": "own"}, TAINT, TAINT]
    assert SLICE["spec"]["devices"][1]["taints"] == [{"key": "own"}]
    assert matcher.tainted(SLICE, [{"spec": {"deviceSelector": {"device": "z"}, "taint": TAINT}}]) is SLICE


def test_flat_slice() -> None:
    """Devices of v1beta1 are tainted where that version has their fields."""
    flat = slice_({"name": "x", "basic": {"attributes": attributes(model="a")}})
    assert tainted(V1_34, flat, {"deviceClassName": "a"}) == ["x"]
