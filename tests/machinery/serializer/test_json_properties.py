"""Random bodies: each is decoded to a canonical object or refused with a DecodeError."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.releases import NEWEST
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.json import (
    DecodeError,
    decode_json,
    decode_value,
    decode_yaml,
    encode,
    parse_json,
    read_type_meta,
)
from understudy.machinery.serializer.protobuf_wire import MAGIC, make_envelope
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Schemas, Shape, Struct

SCHEMAS = Schemas.of(NEWEST)
KINDS = {
    name: SCHEMAS.kind(*name.split("/"))
    for name in (
        "resource.k8s.io/v1beta1/ResourceClaim",
        "resource.k8s.io/v1beta1/ResourceSlice",
        "/v1/Pod",
        "/v1/Secret",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
    )
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CUSTOM: dict[str, st.SearchStrategy[Any]] = {
    "Time": st.none() | st.datetimes().map(lambda at: f"{at.replace(microsecond=0).isoformat()}Z"),
    "MicroTime": st.none() | st.datetimes().map(lambda at: f"{at.isoformat(timespec='microseconds')}Z"),
    "Quantity": st.integers(0, 10**6).map(str) | st.sampled_from(("1Gi", "500m", "1.5", "2e3")),
    "IntOrString": st.integers(-5, 70000) | st.text(max_size=4),
    "RawExtension": st.dictionaries(st.text(max_size=3), JSON, max_size=2),
    "FieldsV1": st.dictionaries(st.text("abc", max_size=3), st.just({}), max_size=2),
    "JSON": JSON,
    "JSONSchemaPropsOrBool": st.booleans(),
    "JSONSchemaPropsOrArray": st.none(),
    "JSONSchemaPropsOrStringArray": st.lists(st.text(max_size=3), max_size=2),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "bool": st.booleans(),
    "bytes": st.sampled_from(("", "eA==", "eHg=")),
    "interface": JSON,
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "int64": st.integers(-(2**63), 2**63 - 1),
}


def values(shape: Shape, depth: int = 6) -> st.SearchStrategy[Any]:
    """Return a strategy for valid values of a type; structs have a few of their fields."""
    if isinstance(shape, Custom):
        return CUSTOM[shape.name]
    if isinstance(shape, Scalar):
        return SCALARS.get(shape.kind, st.integers(-(2**31), 2**31 - 1))
    if depth == 0:
        return st.none()
    if isinstance(shape, List):
        return st.lists(st.deferred(lambda: values(shape.element, depth - 1)), max_size=2)
    if isinstance(shape, Map):
        return st.dictionaries(st.text(max_size=3), st.deferred(lambda: values(shape.value, depth - 1)), max_size=2)
    return objects(shape, depth)


@st.composite
def objects(draw: st.DrawFn, struct: Struct, depth: int = 6) -> Any:
    if not struct.fields:
        return {}
    names = draw(st.lists(st.sampled_from(sorted(struct.fields)), unique=True, max_size=5))
    return {name: draw(values(struct.fields[name].type, depth - 1)) for name in names}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40)
def test_canonical_form_is_stable(kind: str, data: st.DataObject) -> None:
    """Decoding an encoded object changes nothing, in JSON and in protobuf."""
    struct = KINDS[kind]
    value = data.draw(objects(struct)) | {"kind": struct.type_name, "apiVersion": kind.rpartition("/")[0].strip("/")}
    obj, strict = decode_json(json.dumps(value).encode(), struct)
    assert strict == []
    text = encode(obj)
    assert encode(decode_value(obj, struct)[0]) == text
    assert encode(decode_json(text, struct)[0]) == text
    assert list(decode_json(text, struct)[0]) == list(obj)
    if not kind.startswith("apiextensions"):  # stored as JSON: protobuf is another form of it
        again = protobuf.decode(protobuf.encode(obj, struct), struct)
        assert json.loads(encode(again)) == json.loads(text)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40)
def test_any_value_anywhere_is_decoded_or_refused(kind: str, data: st.DataObject) -> None:
    """Any value in any field is decoded or refused, by the fast and the exact decoder alike."""
    struct = KINDS[kind]
    value = data.draw(objects(struct))
    where = value
    while isinstance(where, dict) and where and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(where)))
        if not isinstance(where[key], dict):
            where[key] = data.draw(JSON)
            break
        where = where[key]
    try:
        obj, _ = decode_json(json.dumps(value).encode(), struct)
    except DecodeError:
        return
    assert encode(decode_value(obj, struct)[0]) == encode(obj)


@given(st.binary() | st.text("{}[]:,\"'0123456789.-+eEtrufalsn \\u").map(str.encode))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    """Any bytes are decoded or refused with a DecodeError."""
    for read in (lambda: decode_json(body, KINDS["/v1/Pod"]), lambda: read_type_meta(parse_json(body))):
        with suppress(DecodeError):
            read()


@given(st.text("{}[]:,\"'&*!|>-?#%@` abyn012\n\t") | st.text())
def test_any_text_as_yaml_is_decoded_or_refused(text: str) -> None:
    """Any text as YAML is decoded or refused with a DecodeError."""
    with suppress(DecodeError):
        decode_yaml(text.encode("utf-8", "surrogatepass"), KINDS["/v1/Pod"])


@given(
    st.binary().map(lambda tail: MAGIC + tail) | st.binary().map(lambda message: make_envelope("v1", "Pod", message))
)
def test_any_bytes_as_protobuf_are_decoded_or_refused(body: bytes) -> None:
    """Any bytes as protobuf are decoded or refused with a DecodeError."""
    with suppress(DecodeError):
        protobuf.decode(body, KINDS["/v1/Pod"])
