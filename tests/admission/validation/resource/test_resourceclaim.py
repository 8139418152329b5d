"""The life of a claim: what its status may become, what feature gates take away, what tables show."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from understudy.admission.context import Context
from understudy.apiserver.kinds.resource import resource
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.typeinfo.schema import Schemas

from .objects import ALLOCATION, DEVICES, STATUS, metadata

VERSIONS = {V1_31: "v1alpha3", V1_32: "v1beta1"}
ALL_ON = {
    V1_31: {"DRAControlPlaneController": True},
    V1_32: {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True},
}
POD = {"resource": "pods", "name": "p", "uid": "u-1"}
OTHER = {"resource": "pods", "name": "q", "uid": "u-2"}
CONTROLLED = {**ALLOCATION, "controller": "ctrl.example.com"}

Obj = dict[str, Any]


class World:
    """A claim that is written again and again, by the rules of a release with some gates on."""

    def __init__(self, release: Version = V1_32, **gates: bool) -> None:
        self.release = release
        self.ctx = Context(release, Gates.of(release, gates or ALL_ON[release]), VERSIONS[release])
        self.behavior = resource.behaviors(release)["ResourceClaim"]
        assert self.behavior.status is not None
        self.status_rules = self.behavior.status
        self.claim: Obj = {}

    def decoded(self, spec: Obj, status: Obj | None = None) -> Obj:
        obj = {"metadata": metadata("claim"), "spec": spec, "status": status or {}}
        struct = Schemas.of(self.release).kind("resource.k8s.io", VERSIONS[self.release], "ResourceClaim")
        decoded, _ = decode_json(encode(obj), struct)
        decoded["metadata"] |= {"namespace": "n", "uid": "u", "resourceVersion": "1"}
        self.behavior.defaults(decoded, self.ctx)
        return decoded

    def create(self, **spec: Any) -> None:
        self.claim = self.decoded({"devices": DEVICES, **spec})
        self.behavior.strategy.prepare_for_create(self.claim, self.ctx)
        assert self.behavior.strategy.validate(self.claim, self.ctx) == []

    def _written(self, strategy: Any, new: Obj) -> list[str]:
        new["metadata"] = copy.deepcopy(self.claim["metadata"])
        strategy.prepare_for_update(new, self.claim, self.ctx)
        errors = [error.text(self.ctx.release) for error in strategy.validate_update(new, self.claim, self.ctx)]
        if not errors:
            self.claim = new
        return errors

    def update(self, **spec: Any) -> list[str]:
        return self._written(self.behavior.strategy, self.decoded({"devices": DEVICES, **spec}))

    def report(self, **status: Any) -> list[str]:
        """A new status; the errors if it is refused."""
        return self._written(self.status_rules, self.decoded({"devices": {}}, status))

    def set_gates(self, **gates: bool) -> None:
        self.ctx.gates.set(gates)

    @property
    def status(self) -> Obj:
        return dict(self.claim["status"])


def reserved_for(*consumers: Obj) -> Obj:
    return {"allocation": ALLOCATION, "reservedFor": list(consumers)}


@pytest.mark.parametrize("release", VERSIONS)
def test_clients_do_not_set_the_status(release: Version) -> None:
    world = World(release)
    world.claim = world.decoded({"devices": DEVICES}, {"reservedFor": [POD]})
    world.behavior.strategy.prepare_for_create(world.claim, world.ctx)
    assert world.status == {}


@pytest.mark.parametrize("release", VERSIONS)
def test_the_spec_cannot_be_changed(release: Version) -> None:
    """Neither by an update, which says so, nor by a write of the status, which does not."""
    world = World(release)
    world.create()
    errors = world.update(devices={**DEVICES, "constraints": []})
    assert len(errors) == 1
    assert errors[0].startswith("spec: Invalid value: resource.ResourceClaimSpec{")
    assert errors[0].endswith(": field is immutable")
    assert world.report() == []
    assert world.claim["spec"]["devices"]["constraints"]


@pytest.mark.parametrize("release", VERSIONS)
def test_an_allocation_is_set_once(release: Version) -> None:
    """It can be taken away and made anew, not changed."""
    world = World(release)
    world.create()
    assert world.report(allocation=ALLOCATION) == []
    assert world.report(allocation=ALLOCATION) == []
    changed = {**ALLOCATION, "nodeSelector": None}
    (error,) = world.report(allocation=changed)
    assert error.startswith("status.allocation: Invalid value: resource.AllocationResult{")
    assert error.endswith(": field is immutable")
    assert world.report() == []
    assert world.report(allocation=changed) == []


@pytest.mark.parametrize("release", VERSIONS)
def test_only_what_is_allocated_is_reserved(release: Version) -> None:
    world = World(release)
    world.create()
    forbidden = "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    assert world.report(reservedFor=[POD]) == [forbidden]
    assert world.report(**reserved_for(POD)) == []


@pytest.mark.parametrize(
    ("release", "most", "wrong"),
    [(V1_31, 32, "Too long: may not be longer than 32"), (V1_32, 256, "Too many: 257: must have at most 256 items")],
)
def test_how_many_may_use_a_claim(release: Version, most: int, wrong: str) -> None:
    world = World(release)
    world.create()
    consumers = [{**POD, "uid": f"u-{i}"} for i in range(most + 1)]
    assert world.report(**reserved_for(*consumers)) == [f"status.reservedFor: {wrong}"]
    assert world.report(**reserved_for(*consumers[1:])) == []


def test_consumers_are_known_by_their_uid() -> None:
    world = World()
    world.create()
    assert world.report(**reserved_for(POD, {**OTHER, "uid": "u-1"}, {})) == [
        "status.reservedFor[2].resource: Required value",
        "status.reservedFor[2].name: Required value",
        "status.reservedFor[2].uid: Required value",
        'status.reservedFor[1].uid: Duplicate value: "u-1"',
    ]


@pytest.mark.parametrize("release", VERSIONS)
def test_a_claim_that_is_being_deleted_gets_no_new_consumers(release: Version) -> None:
    """Those it has may go. An old uid with a new name is a new consumer."""
    world = World(release)
    world.create()
    assert world.report(**reserved_for(POD, OTHER)) == []
    world.claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert world.report(**reserved_for(POD, {**OTHER, "name": "z"})) == [f"status.reservedFor: Forbidden: {text}"]
    assert world.report(**reserved_for(OTHER)) == []


def test_drivers_report_on_allocated_devices_only() -> None:
    """What they reported goes with the device, unasked."""
    world = World()
    world.create()
    device = STATUS["devices"][0]
    other = {**device, "device": "gpu-9"}
    assert world.report(allocation=ALLOCATION, devices=[device]) == []
    assert world.report(allocation=ALLOCATION, devices=[device, other, device]) == [
        "status.devices[1]: Invalid value: gpu.example.com/node-1/a/gpu-9: must be an allocated device in the claim",
        "status.devices[2].deviceID: Duplicate value: gpu.example.com/node-1/a/gpu-0",
    ]
    assert world.report(devices=[device]) == []
    assert world.status == {}


@pytest.mark.parametrize(
    ("ips", "errors"),
    [
        (["10.0.0.1/24", "2001:db8::1/64", "::ffff:1.2.3.4/96"], []),
        (["10.0.0.1/24", "10.0.00.01/24"], ['ips[1]: Duplicate value: "10.0.0.1/24"']),
        (["2001:db8::1/64", "2001:0DB8:0::1/64"], ['ips[1]: Duplicate value: "2001:db8::1/64"']),
        (["::1%eth0/64", "1.2.3.4/33"], ['"::1%eth0/64"', '"1.2.3.4/33"', 'ips[1]: Duplicate value: ""']),
    ],
)
def test_addresses_are_compared_by_what_they_mean(ips: list[str], errors: list[str]) -> None:
    world = World()
    world.create()
    device = {**STATUS["devices"][0], "networkData": {"ips": ips}}
    found = world.report(allocation=ALLOCATION, devices=[device])
    assert len(found) == len(errors)
    assert all(wanted in error for wanted, error in zip(errors, found, strict=True))


def test_deallocation_is_asked_for_once_nobody_uses_the_claim() -> None:
    """1.31: and it cannot be taken back while the allocation is there."""
    world = World(V1_31)
    world.create(controller="ctrl.example.com")
    assert world.report(deallocationRequested=True) == [
        "status: Forbidden: `allocation` must be set when `deallocationRequested` is set"
    ]
    assert world.report(allocation=CONTROLLED, reservedFor=[POD]) == []
    asked = {"allocation": CONTROLLED, "deallocationRequested": True}
    assert world.report(**asked, reservedFor=[POD]) == [
        "status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"
    ]
    assert world.report(**asked) == []
    assert world.report(allocation=CONTROLLED) == [
        "status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"
    ]
    assert world.report() == []


def test_without_its_gate_a_controller_is_dropped() -> None:
    """1.31: but not from a claim that has one, nor from what it gets."""
    world = World(V1_31, DRAControlPlaneController=False)
    world.create(controller="ctrl.example.com")
    assert "controller" not in world.claim["spec"]
    assert world.report(allocation=CONTROLLED, deallocationRequested=True) == []
    assert world.status == {"allocation": world.decoded({}, {"allocation": ALLOCATION})["status"]["allocation"]}
    world = World(V1_31)
    world.create(controller="ctrl.example.com")
    world.set_gates(DRAControlPlaneController=False)
    assert world.report(allocation=CONTROLLED) == []
    assert world.status["allocation"]["controller"] == "ctrl.example.com"
    assert world.report(allocation=CONTROLLED, deallocationRequested=True) == []
    assert world.status["deallocationRequested"] is True


ADMIN = {**DEVICES, "requests": [{**DEVICES["requests"][0], "adminAccess": False}, DEVICES["requests"][1]]}  # type: ignore[dict-item]


def test_admin_access_is_in_use_wherever_it_stands() -> None:
    """In the spec, even if false; then results keep it, too. Without the gate a new claim loses it."""
    world = World(V1_32, DRAAdminAccess=True)
    world.create(devices=ADMIN)
    world.set_gates(DRAAdminAccess=False)
    result = {**ALLOCATION["devices"]["results"][0], "adminAccess": True}  # type: ignore[index]
    assert world.report(allocation={"devices": {"results": [result]}}) == []
    assert world.status["allocation"]["devices"]["results"][0]["adminAccess"] is True
    world.create(devices=ADMIN)
    assert "adminAccess" not in world.claim["spec"]["devices"]["requests"][0]
    assert world.report(allocation={"devices": {"results": [result]}}) == []
    assert world.status["allocation"]["devices"]["results"][0]["adminAccess"] is None


def test_admin_access_has_no_gate_in_1_31() -> None:
    world = World(V1_31, DRAControlPlaneController=False)
    world.create(devices={"requests": [{**ADMIN["requests"][0], "adminAccess": True}]})
    assert world.claim["spec"]["devices"]["requests"][0]["adminAccess"] is True


def test_device_status_is_kept_while_there_is_any() -> None:
    """The write after the last entry is gone drops."""
    world = World()
    world.create()
    devices = STATUS["devices"]
    assert world.report(allocation=ALLOCATION, devices=devices) == []
    world.set_gates(DRAResourceClaimDeviceStatus=False)
    assert world.report(allocation=ALLOCATION, devices=devices) == []
    assert "devices" in world.status
    assert world.report(allocation=ALLOCATION) == []
    assert world.report(allocation=ALLOCATION, devices=[*devices, *devices]) == []
    assert "devices" not in world.status


@pytest.mark.parametrize(
    ("release", "status", "deleted", "state"),
    [
        (V1_32, {}, False, "pending"),
        (V1_32, {}, True, "deleted"),
        (V1_32, {"allocation": {}}, False, "allocated"),
        (V1_32, {"allocation": {}, "reservedFor": [POD]}, False, "allocated,reserved"),
        (V1_32, {"allocation": {}}, True, "deleted,allocated"),
        (V1_31, {"allocation": {}}, True, "deleted,allocated,deallocating"),
        (V1_31, {"allocation": {}, "deallocationRequested": True}, False, "allocated,deallocating"),
        (V1_31, {"allocation": {}, "reservedFor": [POD]}, True, "deleted,allocated,reserved"),
    ],
)
def test_the_state_column(release: Version, status: Obj, deleted: bool, state: str) -> None:
    fields: Obj = {"name": "claim"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})
    row = resource.behaviors(release)["ResourceClaim"].table_row
    assert row is not None
    assert row({"metadata": fields, "spec": {}, "status": status}, 0)[:2] == ["claim", state]
