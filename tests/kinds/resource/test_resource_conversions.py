"""Conversions of resource.k8s.io between the flat versions, v1alpha3 and v1beta1, and the internal form."""

from __future__ import annotations

import copy

import pytest

from tests.http import exchange
from tests.kinds.resource.objects import objects
from understudy import Server
from understudy.kinds.declarations.kind import Conversion
from understudy.kinds.resource.common import conversions, flat_form
from understudy.machinery.releases.version import V1_32, V1_33
from understudy.machinery.serializer.json import decode_json, encode
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

SPEC = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu.example.com"}]}}

OF_KIND = {
    "ResourceClaim": conversions.CLAIM,
    "ResourceClaimTemplate": conversions.TEMPLATE,
    "ResourceSlice": conversions.SLICE[V1_32],
}


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
@pytest.mark.parametrize("kind", OF_KIND)
def test_conversion_is_lossless(kind: str, version: str) -> None:
    """An object in a flat version is the same after conversion to the internal form and back, and is not edited."""
    conversion: Conversion = OF_KIND[kind][version]
    sent = objects(version)[kind]
    internal = conversion.to_internal(sent)
    assert internal["spec"] != sent["spec"]
    assert conversion.from_internal(internal) == sent == objects(version)[kind]


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_conversion_of_claims_adds_nothing(kind: str) -> None:
    """A conversion that is said to be lossless adds nothing even to the emptiest object."""
    conversion: Conversion = OF_KIND[kind]["v1beta1"]
    assert conversion.lossless
    sent: Obj = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": ""}]}}}
    sent = sent if kind == "ResourceClaim" else {"spec": {"spec": sent["spec"]}}
    assert conversion.from_internal(conversion.to_internal(sent)) == sent


SUBREQUESTS = [{"name": "s", "deviceClassName": "gpu"}]


@pytest.mark.parametrize(
    ("flat", "internal"),
    [
        (
            {"name": "r", "deviceClassName": "gpu", "count": 1},
            {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}},
        ),
        (
            {"name": "r", "deviceClassName": "", "adminAccess": False},
            {"name": "r", "exactly": {"deviceClassName": "", "adminAccess": False}},
        ),
        (
            {"name": "r", "deviceClassName": "", "firstAvailable": SUBREQUESTS},
            {"name": "r", "firstAvailable": SUBREQUESTS},
        ),
        (
            {"name": "r", "deviceClassName": "gpu", "firstAvailable": SUBREQUESTS},
            {"name": "r", "firstAvailable": SUBREQUESTS, "exactly": {"deviceClassName": "gpu"}},
        ),
        ({"name": "r", "deviceClassName": ""}, {"name": "r"}),
    ],
)
def test_request_is_exact_if_it_sets_any_field(flat: Obj, internal: Obj) -> None:
    """A flat request that sets any field but its name and `firstAvailable` has `exactly`, even beside these."""
    flat_spec, nested_spec = ({"devices": {"requests": [request]}} for request in (flat, internal))
    assert flat_form.nested_claim(flat_spec) == nested_spec
    assert flat_form.flat_claim(nested_spec) == flat_spec


def test_empty_selectors_make_a_request_exact() -> None:
    """An empty list of selectors is not nil in Go, so that the request has `exactly`."""
    struct = Schemas.of(V1_32).kind("resource.k8s.io", "v1beta1", "ResourceClaim")
    for selectors, is_exact in (([], True), (None, False)):
        sent: Obj = {"spec": {"devices": {"requests": [{"name": "r", "selectors": selectors}]}}}
        decoded, _ = decode_json(encode(sent), struct)
        (request,) = flat_form.nested_claim(decoded["spec"])["devices"]["requests"]
        assert ("exactly" in request) is is_exact


def test_empty_list_of_subrequests_is_remembered() -> None:
    """An empty list of subrequests makes no request exact, and is still told from nil."""
    struct = Schemas.of(V1_33).kind("resource.k8s.io", "v1beta1", "ResourceClaim")
    sent: Obj = {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": []}]}}}
    decoded, _ = decode_json(encode(sent), struct)
    (request,) = flat_form.nested_claim(decoded["spec"])["devices"]["requests"]
    assert request == {"name": "r"}
    assert request.empty == {"firstAvailable": []}


def test_device_without_basic_becomes_an_empty_one() -> None:
    """Since 1.33 a device without `basic` is one that has nothing but its name; before, it is kept to be refused."""
    spec = {"devices": [{"name": "d"}]}
    sent: Obj = {"spec": copy.deepcopy(spec)}
    newest = conversions.SLICE[V1_33]["v1beta1"]
    assert newest.to_internal(sent) == {"spec": spec}
    assert newest.from_internal(sent) == {"spec": {"devices": [{"name": "d", "basic": {}}]}}
    assert conversions.SLICE[V1_32]["v1beta1"].to_internal(sent) == {
        "spec": {"devices": [{"name": "d", "basic": None}]}
    }


def test_flat_slice_leaves_out_empty_nodes() -> None:
    """`nodeName` and `allNodes` are no pointers in the flat form, which leaves out "" and false."""
    spec = {"driver": "d", "nodeName": "", "allNodes": False}
    assert flat_form.flat_slice(spec) == {"driver": "d"}
    assert flat_form.flat_slice({**spec, "perDeviceNodeSelection": False}) == {
        "driver": "d",
        "perDeviceNodeSelection": False,
    }
    assert flat_form.flat_slice({"nodeName": "n", "allNodes": True}) == {"nodeName": "n", "allNodes": True}


@pytest.mark.apiserver(emulated_version="1.32")
@pytest.mark.parametrize(
    ("kind", "spec"), [("ResourceClaim", SPEC), ("ResourceClaimTemplate", {"spec": SPEC})], ids=["claim", "template"]
)
def test_apply_in_another_version_may_leave_the_spec_out(apiserver: Server, kind: str, spec: Obj) -> None:
    """A manager that applies in another version, without the spec, owns it no longer; a spec cannot be removed."""
    for version, fields in (("v1alpha3", {"spec": spec}), ("v1beta1", {})):
        path = f"/apis/resource.k8s.io/{version}/namespaces/default/{kind.lower()}s/a?fieldManager=m"
        body = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "a"}, **fields}
        status, answer = exchange(apiserver, "PATCH", path, body, "application/apply-patch+yaml")
    assert (status, answer["metadata"].get("managedFields")) == (200, None)
    assert "deviceClassName" in str(answer["spec"])


SLICES = "/apis/resource.k8s.io/{}/resourceslices"
SLICE: Obj = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    },
}


@pytest.mark.apiserver(emulated_version="1.34")
@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([], {"v1beta1"}),  # differs from the null that is stored
        ([{"name": "d", "basic": {"taints": [], "capacity": {}}}], {"v1"}),  # conversion forgets these empty fields
        ([{"name": "d", "basic": {"bindingConditions": []}}], {"v1", "v1beta1"}),  # only v1beta1 tells the difference
    ],
)
def test_empty_fields_change_owners_across_versions(apiserver: Server, devices: list[Obj], expected: set[str]) -> None:
    """A list that is sent empty in another version is taken from its owner, if conversion keeps it."""
    nested = [{"name": device["name"]} for device in devices]
    for method, path, version, sent in (("POST", "", "v1", nested), ("PUT", "/s", "v1beta1", devices)):
        body = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", **SLICE}
        _, obj = exchange(
            apiserver, method, SLICES.format(version) + path, {**body, "spec": {**SLICE["spec"], "devices": sent}}
        )
    owned = {entry["apiVersion"]: entry["fieldsV1"]["f:spec"] for entry in obj["metadata"]["managedFields"]}
    assert {name.partition("/")[2] for name, spec in owned.items() if "f:devices" in spec} == expected


@pytest.mark.apiserver(emulated_version="1.34")
@pytest.mark.parametrize(
    ("device", "status", "beginning"),
    [
        ({"basic": {}}, 422, "spec.devices[0].name: Invalid value"),
        (None, 422, "spec.devices[0].name: Invalid value"),
        (
            {"name": "d", "basic": {"capacity": {"m": {"value": ""}}}},
            500,
            "failed to convert new object: unable to convert unstructured object to resource.k8s.io/v1beta1",
        ),
    ],
)
def test_apply_of_wrong_devices_in_another_version(
    apiserver: Server, device: Obj | None, status: int, beginning: str
) -> None:
    """An applied object is decoded before it is converted to the version of another manager."""
    body = {"kind": "ResourceSlice", **SLICE}
    exchange(apiserver, "POST", SLICES.format("v1"), {"apiVersion": "resource.k8s.io/v1", **body})
    sent: Obj = {"apiVersion": "resource.k8s.io/v1beta1", **body, "spec": {**SLICE["spec"], "devices": [device]}}
    path = SLICES.format("v1beta1") + "/s?fieldManager=m&force=true"
    found, answer = exchange(apiserver, "PATCH", path, sent, "application/apply-patch+yaml")
    assert found == status
    assert beginning in answer["message"]
