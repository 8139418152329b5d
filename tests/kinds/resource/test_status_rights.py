"""Rights that changes of a claim's status need since 1.36. Texts are those of kube-apiserver 1.36.4."""

from __future__ import annotations

import pytest

from tests.admission.asking import ALICE, Rights
from understudy.kinds.context import Context
from understudy.kinds.resource.claims.status_rights import NODE_NAME, validate
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User, account_name
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_35, V1_36, Version
from understudy.machinery.types import Obj

ROBOT = User(account_name("ns", "robot"), [], extra={NODE_NAME: ["n"]})
FIELDS = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
ALLOCATION = {"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": FIELDS}]}}
ANYWHERE: Obj = {"devices": {"results": []}}
BINDING = "update resourceclaims/binding "


def texts(
    status: Obj, old: Obj, *allowed: str, user: User = ALICE, release: Version = V1_36, **gates: bool
) -> tuple[list[str], list[str]]:
    """Return the errors, and what the authorizer was asked."""
    rights = Rights(*allowed, user=user)
    ctx = Context(release, Gates.of(release, gates), "v1", requester=user.info(), authorizer=rights)
    ctx.action = Attributes("", "update", True, "resource.k8s.io", "v1", "ns", "resourceclaims", "status", "c")
    errors = validate({"status": status}, {"status": old}, ctx)
    return [f"{error.field}: {error.body(release)}" for error in errors], rights.asked


CANNOT_BIND = (
    "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
    'resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: '
    'User "alice" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: '
    "no"
)


@pytest.mark.parametrize("status", [{"allocation": ANYWHERE}, {"reservedFor": [{"name": "p"}]}])
def test_allocation_needs_right_to_bind(status: Obj) -> None:
    """An allocation and consumers need `resourceclaims/binding`, of all claims everywhere."""
    assert texts(status, {}) == ([CANNOT_BIND], [BINDING])
    assert texts({}, status) == ([CANNOT_BIND], [BINDING])
    assert texts(status, {}, BINDING) == ([], [BINDING])
    assert texts(status, status) == ([], [])


def device(driver: str, name: str = "d", data: int = 0) -> Obj:
    return {"driver": driver, "pool": "p", "device": name, "data": {"x": data}}


@pytest.mark.parametrize(
    ("devices", "before", "drivers"),
    [
        ([device("a")], [], ["a"]),
        ([device("b"), device("a")], [], ["a", "b"]),
        ([], [device("a")], ["a"]),
        ([device("a", data=1), device("b")], [device("a"), device("b")], ["a"]),
        ([device("a", "e")], [device("a", "d")], ["a"]),
        ([device("a")], [device("a")], []),
    ],
)
def test_devices_need_right_of_each_driver(devices: list[Obj], before: list[Obj], drivers: list[str]) -> None:
    """Devices that are new, changed or gone need `resourceclaims/driver` by the name of their driver."""
    new, old = ({"allocation": ANYWHERE, "devices": each} for each in (devices, before))
    asked = [f"arbitrary-node:update resourceclaims/driver {driver}" for driver in drivers]
    errors, questions = texts(new, old)
    assert (len(errors), questions) == (len(drivers), asked)
    assert texts(new, old, *asked)[0] == []


def test_accounts_on_the_node_need_less() -> None:
    """A service account of a pod on the allocation's only node may have the right for its own node instead."""
    new = {"allocation": ALLOCATION, "devices": [device("a")]}
    old = {"allocation": ALLOCATION}
    asked = [f"{where}:update resourceclaims/driver a" for where in ("associated-node", "arbitrary-node")]
    (error,), questions = texts(new, old, user=ROBOT)
    assert error == (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        'verb="[associated-node:update arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "a" is '
        'forbidden: User "system:serviceaccount:ns:robot" cannot associated-node:update resource '
        '"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns": no'
    )
    assert questions == asked
    assert texts(new, old, asked[0], user=ROBOT)[0] == []
    elsewhere = User(ROBOT.name, [], extra={NODE_NAME: ["o"]})
    assert texts(new, old, user=elsewhere)[1] == asked[1:]
    assert texts({**new, "allocation": ANYWHERE}, {"allocation": ANYWHERE}, user=ROBOT)[1] == asked[1:]
    terms = [{"matchFields": FIELDS, "matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    zone = {**ALLOCATION, "nodeSelector": {"nodeSelectorTerms": terms}}
    assert texts({**new, "allocation": zone}, {"allocation": zone}, user=ROBOT)[1] == asked[1:]
    for fields in ([{**FIELDS[0], "operator": "NotIn"}], [{**FIELDS[0], "key": "metadata.uid"}], FIELDS * 2):
        others = {**ALLOCATION, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}
        assert texts({**new, "allocation": others}, {"allocation": others}, user=ROBOT)[1] == asked[1:]
    assert texts(new, old, user=User("mallory", [], extra={NODE_NAME: ["n"]}))[1] == asked[1:]


def test_devices_of_no_allocation_need_no_right() -> None:
    """Devices that go with their allocation need the right to bind only."""
    old = {"allocation": ANYWHERE, "devices": [device("a")]}
    assert texts({}, old)[1] == [BINDING]


def test_rights_are_asked_for_where_the_gate_is_on() -> None:
    """Releases before 1.36, and servers without the gate, ask for no rights."""
    assert texts({"allocation": ANYWHERE}, {}, release=V1_35) == ([], [])
    assert texts({"allocation": ANYWHERE}, {}, DRAResourceClaimGranularStatusAuthorization=False) == ([], [])
