"""Merged values that are converted to Go's types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.machinery.patch.unstructured import from_unstructured
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.go_types import Schemas

SCHEMAS = Schemas.of(NEWEST)
CONTROLLER = SCHEMAS.kind("", "v1", "ReplicationController")
SLICE = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceSlice")
MAP = SCHEMAS.kind("", "v1", "ConfigMap")


@pytest.mark.parametrize(
    ("value", "stored"),
    [(2.0, 2), (2**31, -(2**31)), (2**32 + 5, 5), (-(2**31) - 1, 2**31 - 1), (1e30, 0), (None, 0)],
)
def test_whole_floats_become_integers(value: Any, stored: int) -> None:
    """A whole float becomes an integer; an integer too large for its field loses its upper bits."""
    obj, unknown = from_unstructured({"status": {"replicas": value}}, CONTROLLER)
    assert (obj["status"]["replicas"], unknown) == (stored, [])


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"replicas": 1.5}, "cannot convert float64 to int32"),
        ({"replicas": "1"}, "unrecognized type: int32"),
        ({"conditions": {}}, "cannot restore slice from map"),
        ({"conditions": [1]}, "cannot restore struct from: int64"),
        ({"conditions": [{"type": 1}]}, "cannot convert int64 to v1.ReplicationControllerConditionType"),
        ({"conditions": [{"type": 1.5}]}, "unrecognized type: string"),
        ({"conditions": [{"lastTransitionTime": 1}]}, "json: cannot unmarshal number into Go value of type string"),
    ],
)
def test_misfits_are_refused(status: Any, why: str) -> None:
    """The first value that does not fit its type is refused in Go's words."""
    with pytest.raises(DecodeError) as caught:
        from_unstructured({"status": status}, CONTROLLER)
    assert str(caught.value) == why


def test_list_of_numbers_becomes_bytes() -> None:
    """A list of numbers becomes bytes, of which each keeps the lower eight bits."""
    assert from_unstructured({"binaryData": {"b": [300, 1, -1]}}, MAP)[0]["binaryData"] == {"b": "LAH/"}


def test_text_that_is_no_base64_is_refused() -> None:
    """Bytes are base64; the error of another text says where it is wrong."""
    assert from_unstructured({"binaryData": {"b": "AAE="}}, MAP)[0]["binaryData"] == {"b": "AAE="}
    with pytest.raises(DecodeError, match=r"^error decoding from json: illegal base64 data at input byte 2$"):
        from_unstructured({"binaryData": {"b": "AA!="}}, MAP)


@pytest.mark.parametrize(
    ("value", "stored"),
    [(2.0**62, 2**62), (2.0**63, -(2**63)), (-(2.0**63), -(2**63)), (1e30, -(2**63)), (-1e30, -(2**63))],
)
def test_floats_beyond_64_bits_are_the_least_integer(value: float, stored: int) -> None:
    """A float that no integer of 64 bits holds becomes the least one, as on the processors of servers."""
    obj, _ = from_unstructured({"metadata": {"generation": value}}, MAP)
    assert obj["metadata"]["generation"] == stored


def test_unknown_fields_are_dropped() -> None:
    """Unknown fields are dropped and reported in sorted order, without keys of maps in their paths."""
    devices = [{"name": "d", "basic": {"capacity": {"memory": {"value": "1Gi", "y": 1}}, "x": 1}}]
    obj, unknown = from_unstructured({"spec": {"devices": devices}}, SLICE)
    assert obj["spec"]["devices"] == [{"name": "d", "basic": {"capacity": {"memory": {"value": "1Gi"}}}}]
    assert unknown == [f'unknown field "spec.devices[0].basic.{name}"' for name in ("capacity.y", "x")]
