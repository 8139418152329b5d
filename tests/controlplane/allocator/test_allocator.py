"""The allocator as a library: what it is made of, what is kept between allocations, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.allocator.objects import (
    ANY,
    NODE,
    allocated,
    allocator,
    attributes,
    claim,
    device,
    devices_of,
    request,
    slice_,
)
from tests.releases import NEWEST, every_release
from understudy.controlplane.allocator import (
    AllocatedState,
    AllocationError,
    Allocator,
    AllocatorPanicError,
    Inventory,
    Rules,
)
from understudy.controlplane.allocator.rules import Variant
from understudy.machinery.releases import features as gates
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_36, Version
from understudy.machinery.types import Obj

CONSUMABLE = frozenset({gates.DRA_CONSUMABLE_CAPACITY})
BINDING = frozenset({gates.DRA_DEVICE_BINDING_CONDITIONS, gates.DRA_RESOURCE_CLAIM_DEVICE_STATUS})


@every_release
def test_versions_may_be_mixed(release: Version) -> None:
    """Slices and claims of different versions of the API meet; the flat ones are converted."""
    flat_claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "metadata": {"name": "flat"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "any", "allocationMode": "All"}]}},
    }
    basic = {"attributes": attributes(model="a"), "capacity": {"memory": "8Gi"}}
    flat_slice = {
        **slice_({"name": "flat", "basic": basic}, pool="p2", name="s2"),
        "apiVersion": "resource.k8s.io/v1alpha3",
    }
    expression = 'device.attributes["gpu.example.com"].?model.orValue("") == "a"'
    slices = [slice_(device("nested")), flat_slice]
    all_of = allocator(*slices, release=release)
    assert devices_of(all_of.allocate(NODE, [flat_claim])) in ([["nested", "flat"]], [["flat", "nested"]])
    assert devices_of(all_of.allocate(NODE, [claim(request(expression=expression))])) == [["flat"]]


def test_claims_of_a_pod_share_no_device() -> None:
    """Claims are allocated together, each with devices of its own, or none of them."""
    two = allocator(slice_(device("a"), device("b")))
    pod = [claim(request(), name=name) for name in "xyz"]
    assert devices_of(two.allocate(NODE, pod[:2])) == [["a"], ["b"]]
    assert two.allocate(NODE, pod) is None
    assert two.allocate(NODE, []) == []


def test_objects_are_not_edited() -> None:
    """An allocation leaves the objects as they are, and two allocations in a row give the same."""
    slices = [slice_(device("a"), device("b"), device("c"))]
    before = repr(slices)
    three = allocator(*slices)
    pod = [claim(request(count=2))]
    first = three.allocate(NODE, pod)
    assert three.allocate(NODE, pod) == first
    assert repr(slices) == before


def test_long_claims_need_no_recursion() -> None:
    """Many claims with as many devices as they may have are searched without deep recursion."""
    many = allocator(
        *(slice_(*(device(f"d{i}-{j}") for j in range(128)), pool=f"p{i}", name=f"s{i}") for i in range(20))
    )
    pod = [claim(request(count=32), name=f"c{i}") for i in range(64)]
    results = devices_of(many.allocate(NODE, pod))
    assert results is not None
    assert len({name for names in results for name in names}) == 64 * 32


def test_timeout() -> None:
    """A search that takes longer than its timeout ends with upstream's error."""
    devices = [device(f"d{i}", attributes=attributes(group=i)) for i in range(4)]
    match: Obj = {"constraints": [{"matchAttribute": "gpu.example.com/group"}]}
    with pytest.raises(AllocationError, match=r"^filter operation aborted: context deadline exceeded$"):
        allocator(slice_(*devices)).allocate(NODE, [claim(request(count=2), **match)], timeout=-1)


def test_crash_of_the_scheduler() -> None:
    """1.34 compares the capacity of the device with the request's number, and crashes if there is none."""
    slices = [slice_(device("a")), slice_(device("b"), pool="p2", name="s2")]
    crashing = Allocator(V1_34, CONSUMABLE, [], [ANY], slices)
    with pytest.raises(AllocatorPanicError, match=r"index out of range \[1\] with length 1"):
        crashing.allocate(NODE, [claim(request(count=2))])
    assert devices_of(Allocator(V1_35, CONSUMABLE, [], [ANY], slices).allocate(NODE, [claim(request(count=2))]))


def test_error_of_one_node() -> None:
    """An invalid pool is an error only for the node; the scheduler goes on with others."""
    twice = allocator(slice_(device("a"), device("a")))
    with pytest.raises(AllocationError, match=r"^invalid resource pools were encountered$") as caught:
        twice.allocate(NODE, [claim(request())])
    assert caught.value.only_this_node


@pytest.mark.parametrize(
    ("release", "features", "variant", "on"),
    [
        (V1_36, frozenset[str](), Variant.STABLE, frozenset[str]()),
        (V1_36, CONSUMABLE, Variant.INCUBATING, CONSUMABLE),
        (V1_36, frozenset({gates.DRA_LIST_TYPE_ATTRIBUTES}), Variant.STABLE, frozenset[str]()),
        (V1_35, frozenset({gates.DRA_DEVICE_TAINTS}), Variant.INCUBATING, {gates.DRA_DEVICE_TAINTS}),
        (V1_35, BINDING, Variant.EXPERIMENTAL, BINDING),
        (V1_35, frozenset({gates.DRA_RESOURCE_CLAIM_DEVICE_STATUS}), Variant.STABLE, frozenset[str]()),
        (
            V1_34,
            frozenset({gates.DRA_RESOURCE_CLAIM_DEVICE_STATUS}),
            Variant.EXPERIMENTAL,
            {gates.DRA_RESOURCE_CLAIM_DEVICE_STATUS},
        ),
        (V1_31, frozenset({gates.DRA_ADMIN_ACCESS}), Variant.STABLE, frozenset[str]()),
    ],
)
def test_variant(release: Version, features: frozenset[str], variant: Variant, on: frozenset[str]) -> None:
    """The first allocator that knows all features runs; 1.35 and 1.36 have binding conditions only with both gates."""
    rules = Rules.of(release, features)
    assert (rules.variant, rules.enabled) == (variant, on)


def test_pool_that_grows() -> None:
    """The first slice says how many slices a pool has; from 1.36 on those of the node come first."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    shared = slice_(device("a"), nodeSelector={"nodeSelectorTerms": terms}, name="s1", count=3)
    slices = [shared, slice_(device("b"), name="s2", count=2)]
    both = [claim(request(count=2))]
    assert devices_of(Allocator(V1_36, CONSUMABLE, [], [ANY], slices).allocate(NODE, both)) == [["a", "b"]]
    assert Allocator(V1_36, frozenset(), [], [ANY], slices).allocate(NODE, both) is None
    assert Allocator(V1_35, CONSUMABLE, [], [ANY], slices).allocate(NODE, both) is None


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_inventory_reads_only_slices_that_changed() -> None:
    """An inventory made from the previous one takes over the slices that are the same objects."""
    kept, old = slice_(device("a")), slice_(device("b"), pool="p2", name="s2")
    first = Inventory(NEWEST, frozenset(), [kept, old])
    new = slice_(device("c"), pool="p2", name="s2", generation=2)
    second = Inventory(NEWEST, frozenset(), [new, kept], first)
    assert second.slices[1] is first.slices[0]
    both = [claim(request(count=2))]
    assert devices_of(Allocator(NEWEST, frozenset(), [], [ANY], first).allocate(NODE, both)) == [["a", "b"]]
    assert devices_of(Allocator(NEWEST, frozenset(), [], [ANY], second).allocate(NODE, both)) == [["c", "a"]]


def test_pools_follow_the_labels_of_a_node() -> None:
    """The pools of a node are gathered anew when its labels change."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    zone = allocator(slice_(device("a"), nodeSelector={"nodeSelectorTerms": terms}))
    assert devices_of(zone.allocate(NODE, [claim(request())])) == [["a"]]
    assert zone.allocate({"metadata": {"name": "node", "labels": {"zone": "b"}}}, [claim(request())]) is None


def shares(name: str, *amounts: str) -> Obj:
    obj = allocated(*("d" for _ in amounts), name=name)
    for i, (result, amount) in enumerate(zip(obj["status"]["allocation"]["devices"]["results"], amounts, strict=True)):
        result |= {"shareID": f"{name}-{i}", "consumedCapacity": {"memory": amount}}
    return obj


def test_allocated_state_follows_claims() -> None:
    """A state that claims were added to and removed from is as one that was made of the claims that are left."""
    rules = Rules.of(V1_36, CONSUMABLE)
    claims = [allocated("a", "b", name="x"), shares("y", "1Gi", "2Gi"), shares("z", "3Gi"), allocated("c", name="w")]
    state = AllocatedState(rules, claims)
    for obj in (claims[0], claims[1]):
        state.remove(obj)
    expected: Any = AllocatedState(rules, claims[2:])
    assert (state.devices, state.shares, state.capacity) == (expected.devices, expected.shares, expected.capacity)
    for obj in claims[2:]:
        state.remove(obj)
    assert not state.devices
    assert not state.shares
    assert not state.capacity


@pytest.mark.parametrize(("release", "in_use"), [(V1_31, True), (V1_36, False)])
def test_admin_access_takes_no_device(release: Version, in_use: bool) -> None:
    """A result for admin access takes no device, but for 1.31, whose results do not say what they are for."""
    state = AllocatedState(Rules.of(release, frozenset()), [allocated("a", adminAccess=True)])
    assert state.has("gpu.example.com/pool/a") is in_use


def test_answers_of_selectors_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression is evaluated once for a device, in all allocations with the same inventory."""
    inventory = Inventory(NEWEST, frozenset(), [slice_(device("a"), device("b"))])
    obj = claim(request(expression='device.driver == "x"'))
    assert Allocator(NEWEST, frozenset(), [], [ANY], inventory).allocate(NODE, [obj]) is None
    monkeypatch.setattr("understudy.cel.compile", None)
    assert Allocator(NEWEST, frozenset(), [], [ANY], inventory).allocate(NODE, [obj]) is None
