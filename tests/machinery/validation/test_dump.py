"""Values as error messages print them. Recorded ones are in serializer/test_recorded_bodies.py."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.machinery.releases.version import V1_32, V1_34
from understudy.machinery.serializer.json import decode_json
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.validation.dump import dump, dump_json

SCHEMAS = Schemas.of(V1_32)
RESOURCE = "k8s.io/kubernetes/pkg/apis/resource."
META = "k8s.io/apimachinery/pkg/apis/meta/v1."
EMPTY_META = (
    'v1.ObjectMeta{Name:"", GenerateName:"", Namespace:"", SelfLink:"", UID:"", ResourceVersion:"", Generation:0, '
    "CreationTimestamp:time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC), DeletionTimestamp:<nil>, "
    "DeletionGracePeriodSeconds:(*int64)(nil), Labels:map[string]string(nil), Annotations:map[string]string(nil), "
    "OwnerReferences:[]v1.OwnerReference(nil), Finalizers:[]string(nil), ManagedFields:[]v1.ManagedFieldsEntry(nil)}"
)
ADDRESS = "0xc000a1e5d0"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            f"{RESOURCE}DeviceClaim",
            {"requests": [{"name": "r", "deviceClassName": "c", "adminAccess": True, "count": 1}], "config": []},
            'resource.DeviceClaim{Requests:[]resource.DeviceRequest{resource.DeviceRequest{Name:"r", '
            'DeviceClassName:"c", Selectors:[]resource.DeviceSelector(nil), AllocationMode:"", Count:1, '
            f"AdminAccess:(*bool)({ADDRESS})}}}}, "
            "Constraints:[]resource.DeviceConstraint(nil), Config:[]resource.DeviceClaimConfiguration{}}",
        ),
        (
            f"{RESOURCE}DeviceClaimConfiguration",
            {"requests": ["a", 'b"'], "opaque": {"driver": "d"}},
            'resource.DeviceClaimConfiguration{Requests:[]string{"a", "b\\""}, '
            f"DeviceConfiguration:resource.DeviceConfiguration{{Opaque:(*resource.OpaqueDeviceConfiguration)({ADDRESS})}}}}",
        ),
        (
            f"{RESOURCE}OpaqueDeviceConfiguration",
            {"driver": "d", "parameters": {}},
            'resource.OpaqueDeviceConfiguration{Driver:"d", Parameters:runtime.RawExtension{Raw:[]uint8{0x7b, 0x7d}, '
            "Object:runtime.Object(nil)}}",
        ),
        (
            f"{RESOURCE}DeviceAttribute",
            {"int": 5},
            f"resource.DeviceAttribute{{IntValue:(*int64)({ADDRESS}), BoolValue:(*bool)(nil), "
            "StringValue:(*string)(nil), VersionValue:(*string)(nil)}",
        ),
        (
            f"{RESOURCE}ResourceClaimTemplateSpec",
            {"metadata": {}, "spec": {}},
            f"resource.ResourceClaimTemplateSpec{{ObjectMeta:{EMPTY_META}, Spec:resource.ResourceClaimSpec{{"
            "Devices:resource.DeviceClaim{Requests:[]resource.DeviceRequest(nil), "
            "Constraints:[]resource.DeviceConstraint(nil), Config:[]resource.DeviceClaimConfiguration(nil)}}}",
        ),
        (
            f"{META}ManagedFieldsEntry",
            {"manager": "m", "time": "2024-01-02T03:04:05Z", "fieldsV1": {}},
            'v1.ManagedFieldsEntry{Manager:"m", Operation:"", APIVersion:"", '
            'Time:time.Date(2024, time.January, 2, 3, 4, 5, 0, time.Local), FieldsType:"", '
            f'FieldsV1:(*v1.FieldsV1)({ADDRESS}), Subresource:""}}',
        ),
        (
            "k8s.io/kubernetes/pkg/apis/core.ResourceList",
            {"memory": "1Gi", "cpu": "500m"},
            'core.ResourceList{"cpu":resource.Quantity{i:resource.int64Amount{value:500, scale:-3}, '
            'd:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"500m", Format:"DecimalSI"}, '
            '"memory":resource.Quantity{i:resource.int64Amount{value:1073741824, scale:0}, '
            'd:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"1Gi", Format:"BinarySI"}}',
        ),
    ],
)
def test_values_are_printed_in_go_syntax(name: str, value: Any, expected: str) -> None:
    """A value is printed as Go's %#v prints its internal type."""
    assert dump(value, name, SCHEMAS) == expected


def test_empty_is_not_printed_as_nil() -> None:
    """A value that the body has and is empty is printed as empty, although the stored object drops it."""
    claim = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceClaim")
    dumps = []
    for body in (b'{"spec":{"devices":{"requests":[],"config":[]}}}', b'{"spec":{"devices":{}}}'):
        obj, _ = decode_json(body, claim)
        assert obj["spec"] == {"devices": {"requests": None}}
        dumps.append(dump(obj["spec"]["devices"], f"{RESOURCE}DeviceClaim", SCHEMAS))
    assert dumps == [
        "resource.DeviceClaim{Requests:[]resource.DeviceRequest{}, Constraints:[]resource.DeviceConstraint(nil), "
        "Config:[]resource.DeviceClaimConfiguration{}}",
        "resource.DeviceClaim{Requests:[]resource.DeviceRequest(nil), Constraints:[]resource.DeviceConstraint(nil), "
        "Config:[]resource.DeviceClaimConfiguration(nil)}",
    ]


def test_later_releases_print_json() -> None:
    """From 1.34 on, values are printed as JSON with Go's names, except metadata."""
    value = {"metadata": {"labels": {"a": "<"}}, "spec": {"devices": {"requests": [{"name": "r", "count": 1}]}}}
    assert dump_json(value, f"{RESOURCE}ResourceClaimTemplateSpec", SCHEMAS) == (
        '{"creationTimestamp":null,"labels":{"a":"\\u003c"},"Spec":{"Devices":{"Requests":[{"Name":"r",'
        '"DeviceClassName":"","Selectors":null,"AllocationMode":"","Count":1,"AdminAccess":null}],'
        '"Constraints":null,"Config":null}}}'
    )


def test_zero_time_is_left_out_since_1_34() -> None:
    """Since 1.34 the metadata of a template has no creationTimestamp, unless it is set."""
    name = f"{RESOURCE}ResourceClaimTemplateSpec"
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {}}}
    assert dump(spec, name, Schemas.of(V1_34)).startswith('{"labels":{"a":"b"},"Spec":{')
