"""Kubernetes protobuf in both directions: malformed bodies, merged parts, raw parameters, watch frames."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.machinery.golang.json_writer import RawObject
from understudy.machinery.patch.structured_merge_diff import field_set
from understudy.machinery.patch.structured_merge_diff.field_set import FieldSetError
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.json import DecodeError, decode_json
from understudy.machinery.serializer.protobuf_wire import (
    MAGIC,
    encode_varint,
    length_delimited,
    make_envelope,
    open_envelope,
    read_watch_frame,
    watch_frame,
)
from understudy.machinery.typeinfo.go_types import Schemas

SCHEMAS = Schemas.of(NEWEST)
POD = SCHEMAS.kind("", "v1", "Pod")
CLAIM = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceClaim")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "empty data"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (MAGIC, "empty body"),
        (MAGIC + b"\x0a", "unexpected EOF"),
        (MAGIC + b"\x0a\x05", "unexpected EOF"),
        (MAGIC + b"\xff" * 10 + b"\x01", "proto: integer overflow"),
        (MAGIC + b"\x0a" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (MAGIC + b"\x08\x01", "proto: wrong wireType = 0 for field TypeMeta"),
        (MAGIC + b"\x0c", "proto: Unknown: wiretype end group for non-group"),
        (MAGIC + b"\x02\x00", "proto: Unknown: illegal tag 0 (wire type 2)"),
        (MAGIC + b"\x7f", "proto: illegal wireType 7"),
        (make_envelope("v1", "Pod", b"\x08\x01"), "proto: wrong wireType = 0 for field ObjectMeta"),
        (make_envelope("v1", "Pod", b"\x0c"), "proto: Pod: wiretype end group for non-group"),
        (make_envelope("v1", "Pod", length_delimited(b"\x0a", b"\x38\x80")), "unexpected EOF"),
    ],
)
def test_malformed_bodies_are_refused(body: bytes, expected: str) -> None:
    """A malformed body is refused in the words of generated Go code."""
    with pytest.raises(DecodeError) as raised:
        protobuf.decode(body, POD)
    assert str(raised.value) == expected


def test_unknown_fields_are_skipped() -> None:
    """Unknown fields of any wire type are skipped, as newer clients send them."""
    known = length_delimited(b"\x0a", length_delimited(b"\x0a", b"x"))
    varint, fixed64, fixed32 = b"\xf8\x07\x96\x01", b"\xf9\x07" + b"\0" * 8, b"\xfd\x07" + b"\0" * 4
    length, group = length_delimited(b"\xfa\x07", b"abc"), b"\xfb\x07" + b"\x08\x01" + b"\xfc\x07"
    obj = protobuf.decode(make_envelope("v1", "Pod", varint + fixed64 + length + known + group + fixed32), POD)
    assert obj["metadata"]["name"] == "x"


def test_parts_of_a_message_are_merged() -> None:
    """Two parts of one message are merged, as protobuf requires."""
    name, namespace = (
        length_delimited(b"\x0a", length_delimited(b"\x0a", b"x")),
        length_delimited(b"\x0a", length_delimited(b"\x1a", b"y")),
    )
    metadata = protobuf.decode(make_envelope("v1", "Pod", name + namespace), POD)["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("x", "y")


def test_raw_parameters_keep_their_bytes() -> None:
    """Opaque parameters keep their bytes."""
    obj, _ = decode_json(
        b'{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"b": 1.0,"a":1}}}]}}}', CLAIM
    )
    again = protobuf.decode(protobuf.encode(obj, CLAIM), CLAIM)
    kept: Any = again["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert isinstance(kept, RawObject)
    assert kept.source == b'{"b": 1.0,"a":1}'


def test_malformed_fields_of_a_manager_are_no_empty_set() -> None:
    """Fields of a manager that are no JSON, such as two documents, are told from no fields: the entry is malformed."""
    fields = length_delimited(b"\x3a", length_delimited(b"\x0a", b'{"f:data":{}}{}'))  # fieldsV1, its Raw
    metadata = length_delimited(b"\x8a\x01", fields)  # managedFields
    read = protobuf.decode(make_envelope("v1", "Pod", length_delimited(b"\x0a", metadata)), POD)
    with pytest.raises(FieldSetError):
        field_set.from_json(read["metadata"]["managedFields"][0]["fieldsV1"])


def test_packed_numbers_are_read() -> None:
    """Repeated numbers may be packed, though Go writes them one by one."""
    context = length_delimited(
        b"\x72", length_delimited(b"\x22", b"\x01\x02")
    )  # spec.securityContext.supplementalGroups
    obj = protobuf.decode(make_envelope("v1", "Pod", length_delimited(b"\x12", context)), POD)
    assert obj["spec"]["securityContext"]["supplementalGroups"] == [1, 2]


def test_watch_frame_has_a_length() -> None:
    """A watch frame is a length and a bare WatchEvent, whose object has an envelope of its own."""
    body = protobuf.encode({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}, POD)
    frame = watch_frame("ADDED", body)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert read_watch_frame(frame + frame, 0) == ("ADDED", body, len(frame))
    assert read_watch_frame(frame + frame[:-1], len(frame)) is None
    assert read_watch_frame(frame[:3], 0) is None
    assert open_envelope(body)[:2] == ("v1", "Pod")


@pytest.mark.parametrize("size", [0, 1, 0x7F, 0x80, 0x81, 0xFF, 0x100, 0x3FFF, 0x4000])
def test_length_of_a_field_is_a_varint(size: int) -> None:
    assert length_delimited(b"\x0a", b"x" * size) == b"\x0a" + encode_varint(size) + b"x" * size
