"""Claims since 1.33: subrequests, tolerations, consumable capacity, binding conditions, adminAccess; their gates."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.serving.release import Release
from understudy.kinds.common import conditions
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind, Strategy
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, V1_36, V1_37, Version
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path
from understudy.offline.validator import Validator

EXACTLY = {"deviceClassName": "gpu"}
REQUEST = {"name": "r", "exactly": EXACTLY}
SUBREQUEST = {"name": "s", "deviceClassName": "gpu"}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
SHARE = "0123abcd-4567-89ab-cdef-0123456789ab"


def errors_of(release: Version, **devices: Any) -> list[str]:
    """Return the errors of a new claim in v1."""
    validator = Validator.of(str(release), {"DRAConsumableCapacity": True})
    kind = validator.release.kind("resource.k8s.io", "ResourceClaim")
    assert kind is not None
    obj = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": devices}}
    decoded, _ = decode_json(encode(obj), kind.struct("v1"))
    return [error.text(release) for error in validator.create(kind, "v1", decoded)[1]]


ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
UNKNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
REQUEST_0 = "spec.devices.requests[0]"


@pytest.mark.parametrize("release", [V1_34, V1_36])
@pytest.mark.parametrize(
    ("request_", "errors"),
    [
        (REQUEST, []),
        ({"name": "r", "firstAvailable": [SUBREQUEST]}, []),
        ({"name": "r"}, [f"{REQUEST_0}: Required value: {ONE_KIND}"]),
        (
            {"name": "r", "firstAvailable": [{**SUBREQUEST, "count": -1}]},
            [f"{REQUEST_0}.firstAvailable[0].count: Invalid value: -1: must be greater than zero"],
        ),
        (
            {"name": "r", "exactly": {"deviceClassName": ""}},
            [f"{REQUEST_0}.exactly.deviceClassName: Required value"],
        ),
        (
            {"name": "r", "exactly": {**EXACTLY, "tolerations": [{"operator": "Exists", "value": "v"}]}},
            [f'{REQUEST_0}.exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`'],
        ),
        (
            {"name": "r", "firstAvailable": [{**SUBREQUEST, "tolerations": [{"key": "k", "operator": "In"}]}]},
            [
                f"{REQUEST_0}.firstAvailable[0].tolerations[0].operator: "
                'Unsupported value: "In": supported values: "Equal", "Exists"'
            ],
        ),
    ],
)
def test_request_is_for_one_kind_of_device_or_several(release: Version, request_: Obj, errors: list[str]) -> None:
    assert errors_of(release, requests=[request_]) == errors


@pytest.mark.parametrize(
    ("release", "errors"),
    [
        (V1_36, []),
        (V1_34, [f"{REQUEST_0}.firstAvailable[0].deviceClassName: Required value"]),
    ],
)
def test_request_of_both_kinds_is_refused(release: Version, errors: list[str]) -> None:
    """Up to 1.34 the subrequests of a request that has `exactly`, too, are checked as well."""
    both = {"name": "r", "exactly": EXACTLY, "firstAvailable": [{"name": "s"}]}
    last = f"{REQUEST_0}: Invalid value: null: {ONE_KIND}, but multiple fields are set"
    assert errors_of(release, requests=[both]) == [*errors, last]


@pytest.mark.parametrize(
    ("release", "effects"), [(V1_36, '"NoExecute", "NoSchedule", "None"'), (V1_34, '"NoExecute", "NoSchedule"')]
)
def test_effects_of_tolerations(release: Version, effects: str) -> None:
    tolerations = [{"effect": "Never", "operator": "Exists"}]
    where = f"{REQUEST_0}.exactly.tolerations[0].effect"
    assert errors_of(release, requests=[{"name": "r", "exactly": {**EXACTLY, "tolerations": tolerations}}]) == [
        f'{where}: Unsupported value: "Never": supported values: {effects}'
    ]


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("r", []),
        ("t", []),
        ("t/s", []),
        ("r/s", [UNKNOWN]),
        ("t/x", [UNKNOWN]),
        ("t/s/s", [UNKNOWN]),
    ],
)
def test_reference_names_request_or_subrequest(name: str, errors: list[str]) -> None:
    requests = [REQUEST, {"name": "t", "firstAvailable": [SUBREQUEST]}]
    constraint = {"requests": [name], "matchAttribute": "gpu.example.com/numa"}
    where = "spec.devices.constraints[0].requests[0]"
    assert errors_of(V1_36, requests=requests, constraints=[constraint]) == [
        f'{where}: Invalid value: "{name}": {text}' for text in errors
    ]


@pytest.mark.parametrize(
    ("release", "constraint", "error"),
    [
        (V1_36, {"distinctAttribute": "gpu.example.com/numa"}, ""),
        (
            V1_36,
            {},
            ': Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set",
        ),
        (
            V1_36,
            {"distinctAttribute": "numa"},
            '.distinctAttribute: Invalid value: "numa": a fully qualified name must be a domain and a name separated '
            "by a slash",
        ),
        (V1_34, {"matchAttribute": "numa"}, '.matchAttribute: Invalid value: "numa": must include a domain'),
        (V1_36, {"matchAttribute": "/numa"}, '.matchAttribute: Invalid value: "": the domain must not be empty'),
        (V1_34, {"matchAttribute": "/numa"}, ".matchAttribute: Required value: the domain must not be empty"),
        (V1_34, {"matchAttribute": ""}, ".matchAttribute: Required value: name required"),
    ],
)
def test_constraint_has_one_attribute(release: Version, constraint: Obj, error: str) -> None:
    expected = [f"spec.devices.constraints[0]{error}"] if error else []
    assert errors_of(release, requests=[REQUEST], constraints=[constraint]) == expected


@pytest.mark.parametrize(
    ("release", "items"), [(V1_36, []), (V1_34, [f"{REQUEST_0}.exactly.deviceClassName: Required value"])]
)
def test_items_of_a_list_that_is_too_long_are_not_checked(release: Version, items: list[str]) -> None:
    """Since 1.35 a list with too many items is checked no further: neither its items nor duplicates."""
    requests = [{"name": "r", "exactly": {}}, *({"name": f"r{i}", "exactly": EXACTLY} for i in range(32))]
    too_many = "spec.devices.requests: Too many: 33: must have at most 32 items"
    assert errors_of(release, requests=requests) == [*items, too_many]


@pytest.mark.parametrize(("release", "place"), [(V1_36, "requests[1]"), (V1_34, "requests[1].name")])
def test_duplicate_is_reported_at_the_item(release: Version, place: str) -> None:
    """Since 1.35 a duplicate is reported at the item, before at the field that holds its key."""
    assert errors_of(release, requests=[REQUEST, REQUEST]) == [f'spec.devices.{place}: Duplicate value: "r"']


# --- allocations and the status of devices ----------------------------------------------------------------------------


class StoredClaim:
    """A stored claim of a release, to be updated, with gates on or off."""

    def __init__(self, release: Version, **gates: bool) -> None:
        self.ctx = Context(release, Gates.of(release, gates), "v1", now="2026-01-01T00:00:00Z")
        kind = Release.of(release).kind("resource.k8s.io", "ResourceClaim")
        assert kind is not None
        self.kind: Kind = kind

    def create(self, **devices: Any) -> Obj:
        """Return the stored spec of a new claim, in the internal form."""
        obj = self._decoded({"devices": devices}, {})
        self.kind.behavior.strategy.prepare_for_create(obj, self.ctx)
        spec: Obj = obj["spec"]["devices"]
        return spec

    def update(self, old: Obj, **devices: Any) -> Obj:
        """Return the spec with which a claim is updated."""
        obj = self._decoded({"devices": devices}, {})
        self.kind.behavior.strategy.prepare_for_update(obj, self._decoded(**old), self.ctx)
        spec: Obj = obj["spec"]["devices"]
        return spec

    def update_status(self, status: Obj, old: Obj) -> tuple[Obj, list[str]]:
        """Return the status with which a claim is updated, and its errors."""
        strategy = self.kind.behavior.status
        assert isinstance(strategy, Strategy)
        stored = self._decoded({"devices": {"requests": [REQUEST]}}, old)
        obj = self._decoded(stored["spec"], status)
        strategy.prepare_for_update(obj, stored, self.ctx)
        errors = strategy.validate_update(obj, stored, self.ctx)
        return obj["status"], [error.text(self.ctx.release) for error in errors]

    def _decoded(self, spec: Obj, status: Obj) -> Obj:
        meta = {"name": "c", "namespace": "n", "resourceVersion": "1"}
        obj, _ = decode_json(encode({"metadata": meta, "spec": spec, "status": status}), self.kind.struct("v1"))
        return obj


def allocated(*results: Obj, **more: Any) -> Obj:
    return {"devices": {"results": list(results)}, **more}


@pytest.mark.parametrize(
    ("result", "errors"),
    [
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}, []),
        (
            {"bindingConditions": ["a"]},
            [
                "bindingFailureConditions: Invalid value: null: "
                "bindingFailureConditions are required to use bindingConditions"
            ],
        ),
        (
            {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]},
            [
                'bindingConditions[1]: Duplicate value: "a"',
                'bindingFailureConditions[0]: Invalid value: "a": '
                "bindingFailureConditions must not overlap with bindingConditions",
            ],
        ),
        ({"shareID": SHARE}, []),
        ({"shareID": "x"}, ['shareID: Invalid value: "x": error validating uid: invalid UUID length: 1']),
        (
            {"shareID": SHARE.upper()},
            [
                f'shareID: Invalid value: "{SHARE.upper()}": uid must be in RFC 4122 normalized form, '
                "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
            ],
        ),
        (
            {"shareID": f"urn:uuid:{SHARE}"},
            [
                f'shareID: Invalid value: "urn:uuid:{SHARE}": uid must be in RFC 4122 normalized form, '
                "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
            ],
        ),
        (
            {"shareID": "x" * len(SHARE)},
            [f'shareID: Invalid value: "{"x" * len(SHARE)}": error validating uid: invalid UUID format'],
        ),
        (
            {"shareID": f"{{{SHARE}]"},
            [f'shareID: Invalid value: "{{{SHARE}]": error validating uid: invalid bracketed UUID format'],
        ),
    ],
)
def test_result_of_allocation_is_validated(result: Obj, errors: list[str]) -> None:
    claim = StoredClaim(V1_36)
    _, found = claim.update_status({"allocation": allocated({**RESULT, **result})}, {})
    assert found == [f"status.allocation.devices.results[0].{error}" for error in errors]


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        (V1_36, '{"Driver":"gpu.example.com","Pool":"p","Device":"d","ShareID":""}'),
        (V1_34, '{"Driver":{},"Pool":{},"Device":{},"ShareID":{}}'),
    ],
)
def test_device_of_status_is_shown_as_json(release: Version, shown: str) -> None:
    """An entry about a share of a device is not one about the device."""
    claim = StoredClaim(release, DRAConsumableCapacity=True)
    devices = [{name: RESULT[name] for name in ("driver", "pool", "device")}]
    _, errors = claim.update_status({"allocation": allocated({**RESULT, "shareID": SHARE}), "devices": devices}, {})
    assert errors == [f"status.devices[0]: Invalid value: {shown}: must be an allocated device in the claim"]
    assert (
        claim.update_status(
            {
                "allocation": allocated({**RESULT, "shareID": SHARE}),
                "devices": [{**devices[0], "shareID": SHARE}],
            },
            {},
        )[1]
        == []
    )


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("10.0.0.1/24", ""),
        ("10.0.0.1/32", ""),
        ("10.0.0.01/24", 'must be in canonical form ("10.0.0.1/24")'),
        ("2001:0db8::1/64", 'must be in canonical form ("2001:db8::1/64")'),
        ("::ffff:1.2.3.4/120", 'must be in canonical form ("1.2.3.4/24")'),
        ("::ffff:1.2.3.4/32", 'must be in canonical form ("1.2.3.4/32")'),
        ("::ffff:1.2.3.4/20", 'must be in canonical form ("1.2.3.4/20")'),
        ("10.0.0.1", "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
    ],
)
def test_addresses_of_network_devices_are_canonical(address: str, error: str) -> None:
    """Since 1.33 addresses of network devices must be in canonical form."""
    devices = [{**{name: RESULT[name] for name in ("driver", "pool", "device")}, "networkData": {"ips": [address]}}]
    _, errors = StoredClaim(V1_36).update_status({"allocation": allocated(RESULT), "devices": devices}, {})
    where = "status.devices[0].networkData.ips[0]"
    assert errors == ([f'{where}: Invalid value: "{address}": {error}'] if error else [])


@pytest.mark.parametrize(("release", "is_checked"), [(V1_37, True), (V1_36, False)])
def test_tolerations_of_a_result_are_checked_since_1_37(release: Version, is_checked: bool) -> None:
    result = {**RESULT, "tolerations": [{"key": "k", "operator": "In"}]}
    _, errors = StoredClaim(release).update_status({"allocation": allocated(result)}, {})
    where = "status.allocation.devices.results[0].tolerations[0].operator"
    text = f'{where}: Unsupported value: "In": supported values: "Equal", "Exists"'
    assert errors == [text] * is_checked


@pytest.mark.parametrize(("operations", "errors"), [(["NodePrepareResources"], 1), (["NodePrepareResources", "*"], 0)])
def test_device_that_is_not_prepared_is_not_unprepared(operations: list[str], errors: int) -> None:
    """To leave out preparing is to leave out unpreparing as well, by its name or by that of all operations."""
    claim = StoredClaim(V1_37, DRAOptionalNodeOperations=True)
    allocation = allocated({**RESULT, "skipNodeOperations": operations})
    assert len(claim.update_status({"allocation": allocation}, {})[1]) == errors


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"a": 1}, []),
        ([1], ['status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object']),
    ],
)
def test_data_of_a_device_is_a_json_object(data: Any, errors: list[str]) -> None:
    device = {name: RESULT[name] for name in ("driver", "pool", "device")}
    sent = {"allocation": allocated(RESULT), "devices": [{**device, "data": data}]}
    assert StoredClaim(V1_36).update_status(sent, {})[1] == errors


# --- feature gates ----------------------------------------------------------------------------------------------------

TOLERANT = {"name": "r", "exactly": {**EXACTLY, "tolerations": [{"key": "k", "operator": "Exists"}]}}
CONSUMER = {"name": "r", "exactly": {**EXACTLY, "capacity": {"requests": {"memory": "1Gi"}}}}
DISTINCT = {"requests": ["r"], "distinctAttribute": "gpu.example.com/numa"}
ADMIN = {"name": "r", "exactly": {**EXACTLY, "adminAccess": True}}


@pytest.mark.parametrize(
    ("release", "gate", "devices", "stored"),
    [
        (V1_36, "DRAPrioritizedList", {"requests": [{"name": "r", "firstAvailable": [SUBREQUEST]}]}, False),
        (V1_36, "DRADeviceTaints", {"requests": [TOLERANT]}, False),
        (V1_34, "DRADeviceTaints", {"requests": [TOLERANT]}, True),
        (V1_36, "DRAConsumableCapacity", {"requests": [CONSUMER]}, False),
        (V1_36, "DRAConsumableCapacity", {"constraints": [DISTINCT]}, False),
        (V1_34, "DRAConsumableCapacity", {"constraints": [DISTINCT]}, True),
        (V1_35, "DRAAdminAccess", {"requests": [ADMIN]}, False),
    ],
)
def test_disabled_fields_of_spec_are_dropped(release: Version, gate: str, devices: Obj, stored: bool) -> None:
    """Fields behind a gate that is off are dropped, and kept if the stored claim has them; 1.34 forgets some."""
    on, off = StoredClaim(release, **{gate: True}), StoredClaim(release, **{gate: False})
    kept = on.create(**devices)
    assert (off.create(**devices) == kept) is stored
    assert off.update({"spec": {"devices": devices}, "status": {}}, **devices) == kept


@pytest.mark.parametrize(("release", "kept"), [(V1_35, False), (V1_34, True)])
def test_use_in_status_keeps_fields_of_spec_up_to_1_34(release: Version, kept: bool) -> None:
    """A result with adminAccess keeps adminAccess of the spec from being dropped up to 1.34; since then it does not."""
    old = {
        "spec": {"devices": {"requests": [REQUEST]}},
        "status": {"allocation": allocated({**RESULT, "adminAccess": True})},
    }
    spec = StoredClaim(release, DRAAdminAccess=False).update(old, requests=[ADMIN])
    assert ("adminAccess" in spec["requests"][0]["exactly"]) is kept


BINDING = {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}


@pytest.mark.parametrize(
    ("release", "gates", "dropped"),
    [
        (V1_36, {}, set()),
        (V1_36, {"DRADeviceBindingConditions": False}, {"bindingConditions", "bindingFailureConditions"}),
        (V1_34, {"DRADeviceBindingConditions": True}, set()),
        (
            V1_34,
            {"DRADeviceBindingConditions": True, "DRAResourceClaimDeviceStatus": False},
            {"bindingConditions", "bindingFailureConditions", "allocationTimestamp"},
        ),
    ],
)
def test_binding_conditions_have_a_gate(release: Version, gates: dict[str, bool], dropped: set[str]) -> None:
    """In 1.34 binding conditions need the gate of device status as well, and take the time of allocation with them."""
    sent = allocated({**RESULT, **BINDING}, allocationTimestamp="2026-01-01T00:00:00Z")
    status, _ = StoredClaim(release, **gates).update_status({"allocation": sent}, {})
    allocation = status["allocation"]
    assert {*sent, *sent["devices"]["results"][0]} - {*allocation, *allocation["devices"]["results"][0]} == dropped
    status, _ = StoredClaim(release, **gates).update_status({"allocation": sent}, {"allocation": sent})
    assert status["allocation"]["devices"] == sent["devices"]  # what is in use is kept


@pytest.mark.parametrize(("release", "reported"), [(V1_35, False), (V1_34, True)])
def test_shares_are_dropped_before_stale_device_status_since_1_35(release: Version, reported: bool) -> None:
    """The status of a share becomes that of its device when the gate of shares is off; since 1.35 it then goes with the
    allocation of the device."""
    claim = StoredClaim(release, DRAConsumableCapacity=False, DRAResourceClaimDeviceStatus=True)
    device = {name: RESULT[name] for name in ("driver", "pool", "device")}
    status, _ = claim.update_status({"devices": [{**device, "shareID": SHARE}]}, {"allocation": allocated(RESULT)})
    assert ("devices" in status) is reported


def test_share_in_use_is_kept_if_its_gate_is_off() -> None:
    """The status of a share, without an allocation of one, is enough."""
    claim = StoredClaim(V1_36, DRAConsumableCapacity=False)
    share = {**{name: RESULT[name] for name in ("driver", "pool", "device")}, "shareID": SHARE}
    reported = {"allocation": allocated(RESULT), "devices": [share]}
    status, _ = claim.update_status({**reported, "allocation": allocated({**RESULT, "shareID": SHARE})}, reported)
    assert status["devices"][0]["shareID"] == SHARE


# --- adminAccess ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "errors"),
    [
        ({"resource.kubernetes.io/admin-access": "true"}, []),
        ({"resource.kubernetes.io/admin-access": "false"}, ["Forbidden"]),
        ({}, ["Forbidden"]),
        (None, ["Internal error"]),
    ],
)
def test_admin_access_needs_the_label_of_the_namespace(labels: Obj | None, errors: list[str]) -> None:
    claim = StoredClaim(V1_36)
    namespace = None if labels is None else {"metadata": {"name": "n", "labels": labels}}
    claim.ctx.lookup = lambda group, resource, where, name: namespace
    obj = {"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": [REQUEST, ADMIN, ADMIN]}}}
    texts = [error.text(V1_36) for error in claim.kind.behavior.strategy.validate_metadata(obj, claim.ctx)]
    assert [text.split(": ")[:2] for text in texts] == [["spec.devices.requests[1].adminAccess", e] for e in errors]
    _, found = claim.update_status({"allocation": allocated({**RESULT, "adminAccess": True})}, {})
    assert [text.split(": ")[:2] for text in found] == [
        ["status.allocation.devices.results[0].adminAccess", e] for e in errors
    ]


def test_admin_access_of_a_template_needs_the_label_of_the_namespace() -> None:
    claim = StoredClaim(V1_36)
    claim.ctx.lookup = lambda group, resource, where, name: {"metadata": {"name": "n"}}
    template = Release.of(V1_36).kind("resource.k8s.io", "ResourceClaimTemplate")
    assert template is not None
    spec = {"spec": {"devices": {"requests": [ADMIN]}}}
    obj = {"metadata": {"name": "c", "namespace": "n"}, "spec": spec}
    errors = template.behavior.strategy.validate_metadata(obj, claim.ctx)
    assert [error.text(V1_36).partition(":")[0] for error in errors] == ["spec.devices.requests[0].adminAccess"]


# --- texts about metadata and conditions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "unit"), [(V1_36, "bytes"), (V1_34, "characters")])
def test_length_of_class_name_is_limited(release: Version, unit: str) -> None:
    """Since 1.35 the name of a class is checked by declarative rules, which count bytes."""
    name = "c" * 254
    kind, ctx = Release.of(release).kind("resource.k8s.io", "DeviceClass"), StoredClaim(release).ctx
    assert kind is not None
    (error,) = kind.behavior.strategy.validate_metadata({"metadata": {"name": name}}, ctx)
    assert error.text(release) == f'metadata.name: Invalid value: "{name}": must be no more than 253 {unit}'


@pytest.mark.parametrize(("release", "text"), [(V1_36, "must not be empty"), (V1_32, "uid must not be empty")])
def test_owner_needs_uid(release: Version, text: str) -> None:
    """Since 1.34 the error of an owner's empty field does not repeat the name of the field."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]
    (error,) = CORE.created({"metadata": {"name": "c", "ownerReferences": owners}}, StoredClaim(release).ctx)
    assert error.text(release) == f'metadata.ownerReferences.uid: Invalid value: "": {text}'


@pytest.mark.parametrize(("release", "text"), [(V1_36, ""), (V1_32, ": must be set")])
def test_condition_needs_time_and_reason(release: Version, text: str) -> None:
    """Since 1.34 the errors of a condition without time or reason have no further text."""
    errors = conditions.validate([{"type": "Ready", "status": "True"}], Path("conditions"))
    assert [error.text(release) for error in errors] == [
        f"conditions[0].{field}: Required value{text}" for field in ("lastTransitionTime", "reason")
    ]
