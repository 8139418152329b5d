"""CBOR bodies to canonical objects, with the errors of Go's reader.

    item = parse(body, V1_37)
    obj, strict = decode(item, struct)      # as canonical as decode_json's result
    value = decode_unstructured(item)       # of a custom resource: JSON values

Text strings and byte strings are the same to all who read a string. A byte string for a `[]byte` is base64 text, unless
a tag says that it is to be base64 one day (RFC 8949, section 3.4.5.2); a string gets that text from it. A map that has
a key twice is refused, whatever the field validation says. Of unknown fields one is a strict error, by its index in its
map.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.serializer.cbor.decoder import ANY, UNSTRUCTURED, Decoder, unknown_field
from understudy.machinery.serializer.cbor.items import Item, parse
from understudy.machinery.serializer.json_fast import struct_converter
from understudy.machinery.typeinfo.go_types import Schemas, Shape, Struct
from understudy.machinery.typeinfo.scheme import gvk_with_defaults
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.util.deep_recursion import call_deeply

_TYPE_META = "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta"


def decode(item: Item, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a body as a Go type. Returns the canonical object and the strict errors. Raises DecodeError."""
    return call_deeply(_decode, item, struct)


def _decode(item: Item, struct: Struct) -> tuple[Obj, list[str]]:
    decoder = Decoder()
    value = decoder.value(item, struct)
    decoder.check()
    unknown = decoder.unknown
    strict = [] if unknown is None else [unknown_field(unknown)]
    return struct_converter(struct)(value or {}, None), strict


def decode_unstructured(item: Item) -> Obj | None:
    """Decode a body as JSON values, with strings as keys; None for null. Raises DecodeError."""
    value: Obj | None = call_deeply(_json_value, item, UNSTRUCTURED)
    return value


def decode_any(item: Item) -> Any:
    """Decode an item as JSON values. Raises DecodeError."""
    return call_deeply(_json_value, item, ANY)


def _json_value(item: Item, shape: Shape) -> Any:
    decoder = Decoder()
    value = decoder.value(item, shape)
    decoder.check()
    return value


def parse_object(body: bytes, schemas: Schemas, unstructured: GroupVersionKind | None) -> tuple[Item, tuple[str, str]]:
    """Parse a body, and return its apiVersion and kind, "" where missing (upstream: `defaultMetaFactory.Interpret`).

    unstructured  the expected kind of an object without a Go type, which is decoded first, None for others; its kind
                  counts for a body that cannot be

    Raises DecodeError.
    """
    try:
        item = parse(body, schemas.version)
        if unstructured is not None:
            return item, _unstructured_type_meta(item, schemas, unstructured)
        return item, _type_meta(item, schemas)
    except DecodeError as error:
        raise DecodeError(f"unable to determine group/version/kind: {error}") from error


def _unstructured_type_meta(item: Item, schemas: Schemas, expected: GroupVersionKind) -> tuple[str, str]:
    try:
        obj = decode_unstructured(item) or {}
    except DecodeError:
        gvk = gvk_with_defaults(*_type_meta(item, schemas), expected)
        return gvk.api_version, gvk.kind
    api_version, kind = (text if isinstance(text := obj.get(name), str) else "" for name in ("apiVersion", "kind"))
    return api_version, kind


def _type_meta(item: Item, schemas: Schemas) -> tuple[str, str]:
    type_meta = _decode(item, schemas.struct(_TYPE_META))[0]
    return type_meta.get("apiVersion", ""), type_meta.get("kind", "")
