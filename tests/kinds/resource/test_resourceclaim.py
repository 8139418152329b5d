"""ResourceClaims: changes of spec and status, fields behind feature gates, and the state column of tables."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kinds.resource.objects import ALLOCATION, DEVICES, STATUS, metadata
from understudy.apiserver.encoding.conversion import to_internal
from understudy.apiserver.registry.delete import Deletion
from understudy.apiserver.registry.rest import WriteTarget
from understudy.apiserver.registry.store import Registry, validate_all
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.storage.memory import MemoryStore
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Strategy
from understudy.kinds.resource import strategy as resource
from understudy.machinery.errors import StatusError
from understudy.machinery.options import DeleteOptions
from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

VERSIONS = {V1_31: "v1alpha3", V1_32: "v1beta1"}
ALL_ON = {
    V1_31: {"DRAControlPlaneController": True},
    V1_32: {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True},
}
POD = {"resource": "pods", "name": "p", "uid": "u-1"}
OTHER = {"resource": "pods", "name": "q", "uid": "u-2"}
CONTROLLED = {**ALLOCATION, "controller": "ctrl.example.com"}


class ClaimUnderTest:
    """A claim that a registry creates, updates and deletes, in a release and with some gates."""

    def __init__(self, release: Version = V1_32, **gates: bool) -> None:
        config = ServerConfig(emulated_version=str(release), feature_gates=gates or ALL_ON[release])
        self.release = config.release
        self.registry = Registry(MemoryStore(), self.release)
        kind = self.release.kind("resource.k8s.io", "ResourceClaim")
        assert kind is not None
        assert kind.behavior.status is not None
        self.kind, self.main_strategy, self.status_strategy = kind, kind.behavior.strategy, kind.behavior.status
        self.ctx = Context(release, config.gates(), VERSIONS[release], now="2026-01-01T00:00:00Z")

    def decode(self, spec: Obj, status: Obj | None = None) -> Obj:
        sent = {"metadata": metadata("claim"), "spec": spec, "status": status or {}}
        struct = Schemas.of(self.ctx.release).kind("resource.k8s.io", self.ctx.version, "ResourceClaim")
        obj, _ = decode_json(encode(sent), struct)
        obj["metadata"]["namespace"] = "n"
        self.kind.behavior.defaults(obj, self.ctx)
        return to_internal(self.kind, self.ctx.version, obj)

    def create(self, status: Obj | None = None, **spec: Any) -> None:
        """Create the claim, in place of the one that there is."""
        self.registry = Registry(MemoryStore(), self.release)
        obj = self.decode({"devices": DEVICES, **spec}, status)
        asyncio.run(self.registry.create(self._target(self.main_strategy), obj, validate_all))

    def update(self, **spec: Any) -> list[str]:
        """Write a new spec, and return the errors if it is refused."""
        return self._update(self.main_strategy, self.decode({"devices": DEVICES, **spec}))

    def update_status(self, **status: Any) -> list[str]:
        """Write a new status, and return the errors if it is refused."""
        return self._update(self.status_strategy, self.decode({"devices": {}}, status))

    def delete(self) -> None:
        """Mark the claim as being deleted; its finalizer keeps it."""
        asyncio.run(Deletion(self.registry, self.kind, self.ctx).run("n", "claim", DeleteOptions()))

    def _update(self, strategy: Strategy, sent: Obj) -> list[str]:
        async def replace(current: Obj | None) -> Obj:
            assert current is not None
            return {**sent, "metadata": dict(current["metadata"])}

        try:
            asyncio.run(self.registry.update(self._target(strategy), replace, validate=validate_all))
        except StatusError as error:
            return [f"{cause['field']}: {cause['message']}" for cause in (error.details or {})["causes"]]
        return []

    def _target(self, strategy: Strategy) -> WriteTarget:
        return WriteTarget(self.kind, "n", "claim", strategy, self.ctx)

    def set_gates(self, **gates: bool) -> None:
        self.ctx.gates.set(gates)

    @property
    def obj(self) -> Obj:
        obj = self.registry.lookup("resource.k8s.io", "resourceclaims", "n", "claim")
        assert obj is not None
        return obj

    @property
    def status(self) -> Obj:
        return dict(self.obj["status"])


def reserved_for(*consumers: Obj) -> Obj:
    return {"allocation": ALLOCATION, "reservedFor": list(consumers)}


@pytest.mark.parametrize("release", VERSIONS)
def test_create_drops_status(release: Version) -> None:
    claim = ClaimUnderTest(release)
    claim.create(status={"reservedFor": [POD]})
    assert claim.status == {}


@pytest.mark.parametrize("release", VERSIONS)
def test_spec_is_immutable(release: Version) -> None:
    """An update that changes the spec is refused; a status update ignores the spec that it is sent."""
    claim = ClaimUnderTest(release)
    claim.create()
    errors = claim.update(devices={**DEVICES, "constraints": []})
    assert len(errors) == 1
    assert errors[0].startswith("spec: Invalid value: resource.ResourceClaimSpec{")
    assert errors[0].endswith(": field is immutable")
    assert claim.update_status() == []
    assert claim.obj["spec"]["devices"]["constraints"]


@pytest.mark.parametrize("release", VERSIONS)
def test_allocation_is_immutable_once_set(release: Version) -> None:
    """An allocation can be removed and set again but not changed."""
    claim = ClaimUnderTest(release)
    claim.create()
    assert claim.update_status(allocation=ALLOCATION) == []
    assert claim.update_status(allocation=ALLOCATION) == []
    changed = {**ALLOCATION, "nodeSelector": None}
    (error,) = claim.update_status(allocation=changed)
    assert error.startswith("status.allocation: Invalid value: resource.AllocationResult{")
    assert error.endswith(": field is immutable")
    assert claim.update_status() == []
    assert claim.update_status(allocation=changed) == []


@pytest.mark.parametrize("release", VERSIONS)
def test_only_allocated_claim_is_reserved(release: Version) -> None:
    claim = ClaimUnderTest(release)
    claim.create()
    forbidden = "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    assert claim.update_status(reservedFor=[POD]) == [forbidden]
    assert claim.update_status(**reserved_for(POD)) == []


@pytest.mark.parametrize(
    ("release", "limit", "message"),
    [(V1_31, 32, "Too long: may not be longer than 32"), (V1_32, 256, "Too many: 257: must have at most 256 items")],
)
def test_number_of_consumers_is_limited(release: Version, limit: int, message: str) -> None:
    claim = ClaimUnderTest(release)
    claim.create()
    consumers = [{**POD, "uid": f"u-{i}"} for i in range(limit + 1)]
    assert claim.update_status(**reserved_for(*consumers)) == [f"status.reservedFor: {message}"]
    assert claim.update_status(**reserved_for(*consumers[1:])) == []


def test_consumers_are_distinguished_by_uid() -> None:
    claim = ClaimUnderTest()
    claim.create()
    assert claim.update_status(**reserved_for(POD, {**OTHER, "uid": "u-1"}, {})) == [
        "status.reservedFor[2].resource: Required value",
        "status.reservedFor[2].name: Required value",
        "status.reservedFor[2].uid: Required value",
        'status.reservedFor[1].uid: Duplicate value: "u-1"',
    ]


@pytest.mark.parametrize("release", VERSIONS)
def test_claim_under_deletion_gets_no_new_consumers(release: Version) -> None:
    """A claim that is being deleted can lose consumers but not get new ones; another name makes a new consumer."""
    claim = ClaimUnderTest(release)
    claim.create()
    assert claim.update_status(**reserved_for(POD, OTHER)) == []
    claim.delete()
    text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert claim.update_status(**reserved_for(POD, {**OTHER, "name": "z"})) == [
        f"status.reservedFor: Forbidden: {text}"
    ]
    assert claim.update_status(**reserved_for(OTHER)) == []


def test_device_status_needs_allocated_device() -> None:
    """The status of a device must belong to an allocated one; it is removed together with the allocation."""
    claim = ClaimUnderTest()
    claim.create()
    device = STATUS["devices"][0]
    other = {**device, "device": "gpu-9"}
    assert claim.update_status(allocation=ALLOCATION, devices=[device]) == []
    assert claim.update_status(allocation=ALLOCATION, devices=[device, other, device]) == [
        "status.devices[1]: Invalid value: gpu.example.com/node-1/a/gpu-9: must be an allocated device in the claim",
        "status.devices[2].deviceID: Duplicate value: gpu.example.com/node-1/a/gpu-0",
    ]
    assert claim.update_status(devices=[device]) == []
    assert claim.status == {}


@pytest.mark.parametrize(
    ("ips", "errors"),
    [
        (["10.0.0.1/24", "2001:db8::1/64", "::ffff:1.2.3.4/96"], []),
        (["10.0.0.1/24", "10.0.00.01/24"], ['ips[1]: Duplicate value: "10.0.0.1/24"']),
        (["2001:db8::1/64", "2001:0DB8:0::1/64"], ['ips[1]: Duplicate value: "2001:db8::1/64"']),
        (["::1%eth0/64", "1.2.3.4/33"], ['"::1%eth0/64"', '"1.2.3.4/33"', 'ips[1]: Duplicate value: ""']),
    ],
)
def test_equal_addresses_are_duplicates(ips: list[str], errors: list[str]) -> None:
    claim = ClaimUnderTest()
    claim.create()
    device = {**STATUS["devices"][0], "networkData": {"ips": ips}}
    reported = claim.update_status(allocation=ALLOCATION, devices=[device])
    assert len(reported) == len(errors)
    assert all(expected in error for expected, error in zip(errors, reported, strict=True))


def test_deallocation_needs_unreserved_claim() -> None:
    """In 1.31 deallocation can be requested of an allocated claim that nothing uses, and is not taken back before."""
    claim = ClaimUnderTest(V1_31)
    claim.create(controller="ctrl.example.com")
    assert claim.update_status(deallocationRequested=True) == [
        "status: Forbidden: `allocation` must be set when `deallocationRequested` is set"
    ]
    assert claim.update_status(allocation=CONTROLLED, reservedFor=[POD]) == []
    requested = {"allocation": CONTROLLED, "deallocationRequested": True}
    assert claim.update_status(**requested, reservedFor=[POD]) == [
        "status.deallocationRequested: Forbidden: deallocation cannot be requested while `reservedFor` is set"
    ]
    assert claim.update_status(**requested) == []
    assert claim.update_status(allocation=CONTROLLED) == [
        "status.deallocationRequested: Forbidden: may not be cleared when `allocation` is set"
    ]
    assert claim.update_status() == []


def test_controller_is_dropped_if_gate_is_off() -> None:
    """In 1.31 the controller is dropped without its gate, except from a claim that has one."""
    claim = ClaimUnderTest(V1_31, DRAControlPlaneController=False)
    claim.create(controller="ctrl.example.com")
    assert "controller" not in claim.obj["spec"]
    assert claim.update_status(allocation=CONTROLLED, deallocationRequested=True) == []
    assert claim.status == {"allocation": claim.decode({}, {"allocation": ALLOCATION})["status"]["allocation"]}
    claim = ClaimUnderTest(V1_31)
    claim.create(controller="ctrl.example.com")
    claim.set_gates(DRAControlPlaneController=False)
    assert claim.update_status(allocation=CONTROLLED) == []
    assert claim.status["allocation"]["controller"] == "ctrl.example.com"
    assert claim.update_status(allocation=CONTROLLED, deallocationRequested=True) == []
    assert claim.status["deallocationRequested"] is True


def test_controller_of_an_allocation_is_kept_if_gate_is_off() -> None:
    """In 1.31 an allocation is enough, of a claim that names no controller."""
    claim = ClaimUnderTest(V1_31)
    claim.create()
    assert claim.update_status(allocation=CONTROLLED) == []
    claim.set_gates(DRAControlPlaneController=False)
    assert claim.update_status(allocation=CONTROLLED) == []
    assert claim.status["allocation"]["controller"] == "ctrl.example.com"


ADMIN: Obj = {**DEVICES, "requests": [{**DEVICES["requests"][0], "adminAccess": False}, DEVICES["requests"][1]]}


def test_admin_access_in_use_is_kept_if_gate_is_off() -> None:
    """adminAccess in the spec, even if false, keeps that of results; a new claim loses the field without the gate."""
    claim = ClaimUnderTest(V1_32, DRAAdminAccess=True)
    claim.create(devices=ADMIN)
    claim.set_gates(DRAAdminAccess=False)
    result = {**ALLOCATION["devices"]["results"][0], "adminAccess": True}  # type: ignore[index]
    assert claim.update_status(allocation={"devices": {"results": [result]}}) == []
    assert claim.status["allocation"]["devices"]["results"][0]["adminAccess"] is True
    claim.create(devices=ADMIN)
    assert "adminAccess" not in claim.obj["spec"]["devices"]["requests"][0]
    assert claim.update_status(allocation={"devices": {"results": [result]}}) == []
    assert claim.status["allocation"]["devices"]["results"][0]["adminAccess"] is None


def test_admin_access_has_no_gate_in_1_31() -> None:
    claim = ClaimUnderTest(V1_31, DRAControlPlaneController=False)
    claim.create(devices={"requests": [{**ADMIN["requests"][0], "adminAccess": True}]})
    assert claim.obj["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] is True


def test_device_status_in_use_is_kept_if_gate_is_off() -> None:
    """The status of devices is kept as long as the stored claim has any, and dropped by the write after that."""
    claim = ClaimUnderTest()
    claim.create()
    devices = STATUS["devices"]
    assert claim.update_status(allocation=ALLOCATION, devices=devices) == []
    claim.set_gates(DRAResourceClaimDeviceStatus=False)
    assert claim.update_status(allocation=ALLOCATION, devices=devices) == []
    assert "devices" in claim.status
    assert claim.update_status(allocation=ALLOCATION) == []
    assert claim.update_status(allocation=ALLOCATION, devices=[*devices, *devices]) == []
    assert "devices" not in claim.status


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
def test_state_column(release: Version, status: Obj, deleted: bool, state: str) -> None:
    fields: Obj = {"name": "claim"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})
    row = resource.behaviors(release)["resource.k8s.io", "ResourceClaim"].table_row
    assert row is not None
    assert row({"metadata": fields, "spec": {}, "status": status}, 0)[:2] == ["claim", state]
