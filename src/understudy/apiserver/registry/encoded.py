"""Objects in the form of a version, and back: conversion, and the encoded bytes that are made once per revision."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.json import encode
from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.serializer.protobuf_wire import length_delimited, make_envelope
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj

METADATA, ITEMS = b"\x0a", b"\x12"  # the tags of every list's fields 1 and 2


def typed(kind: Kind, version: str, obj: Obj) -> Obj:
    """`obj`, already in that version's form, with its kind and apiVersion in front."""
    return keep_empty_fields(obj, {"kind": kind.name, "apiVersion": kind.gvk(version).api_version, **obj})


def to_internal(kind: Kind, version: str, obj: Obj) -> Obj:
    """A version's form, with or without kind and apiVersion, as the internal one without them."""
    conversion = kind.behavior.conversions.get(version)
    return conversion.to_internal(bare(obj)) if conversion else bare(obj)


def from_internal(kind: Kind, version: str, obj: Obj) -> Obj:
    """The internal form in that of a version, typed."""
    conversion = kind.behavior.conversions.get(version)
    return typed(kind, version, conversion.from_internal(obj) if conversion else obj)


def versioned(entry: Entry, kind: Kind, version: str) -> Obj:
    """An entry's object in a version. Shared: not to be edited."""
    key = ("object", kind.group, version)
    found: Obj | None = entry.cache.get(key)
    if found is None:
        found = entry.cache[key] = in_field_order(from_internal(kind, version, entry.object), kind.struct(version))
    return found


@lru_cache
def _head(kind: Kind, version: str) -> bytes:
    """How an object of a kind begins: {"kind":"Pod","apiVersion":"v1", and then its fields."""
    return encode({"kind": kind.name, "apiVersion": kind.gvk(version).api_version})[:-1] + b","


def _fields(entry: Entry, kind: Kind, version: str) -> bytes:
    """The fields of an entry's object in a version, up to the closing brace: made once, used by every answer."""
    key = (kind.group, version)
    found: bytes | None = entry.cache.get(key)
    if found is None:
        found = entry.cache[key] = encode(bare(versioned(entry, kind, version)))[1:]
    return found


def encoded(entry: Entry, kind: Kind, version: str) -> bytes:
    """An entry's object in a version as JSON, without a newline at the end."""
    return _head(kind, version) + _fields(entry, kind, version)


def bare(obj: Obj) -> Obj:
    """As in a list, whose items do not say what they are."""
    return keep_empty_fields(obj, {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")})


def encoded_list(kind: Kind, version: str, metadata: dict[str, Any], entries: list[Entry]) -> bytes:
    """A list as JSON, joined from what its entries are already encoded as."""
    api_version = kind.gvk(version).api_version
    head = encode({"kind": f"{kind.name}List", "apiVersion": api_version, "metadata": metadata})
    if not entries:
        return head[:-1] + b',"items":[]}\n'
    key = (kind.group, version)
    items = [entry.cache.get(key) or _fields(entry, kind, version) for entry in entries]
    return head[:-1] + b',"items":[{' + b",{".join(items) + b"]}\n"


def _message(entry: Entry, kind: Kind, version: str) -> bytes:
    """An entry's object in a version as a protobuf message: made once, like its JSON."""
    key = ("protobuf", kind.group, version)
    found: bytes | None = entry.cache.get(key)
    if found is None:
        found = entry.cache[key] = protobuf.encode_message(versioned(entry, kind, version), kind.struct(version))
    return found


def encoded_protobuf(entry: Entry, kind: Kind, version: str) -> bytes:
    """An entry's object in a version as protobuf, in its envelope."""
    key = ("protobuf body", kind.group, version)
    found: bytes | None = entry.cache.get(key)
    if found is None:
        found = make_envelope(kind.gvk(version).api_version, kind.name, _message(entry, kind, version))
        entry.cache[key] = found
    return found


def _item(entry: Entry, kind: Kind, version: str) -> bytes:
    """The message as an item of a list, with its tag and length: also made once."""
    key = ("protobuf item", kind.group, version)
    found: bytes | None = entry.cache.get(key)
    if found is None:
        found = entry.cache[key] = length_delimited(ITEMS, _message(entry, kind, version))
    return found


def encoded_protobuf_list(kind: Kind, version: str, metadata: dict[str, Any], entries: list[Entry]) -> bytes:
    """A list as protobuf, in its envelope, joined from what its entries are already encoded as."""
    shape = Schemas.of(kind.release).kind(kind.group, version, f"{kind.name}List").fields["metadata"].type
    assert isinstance(shape, Struct)
    key = ("protobuf item", kind.group, version)
    items = [entry.cache.get(key) or _item(entry, kind, version) for entry in entries]
    message = length_delimited(METADATA, protobuf.encode_message(metadata, shape)) + b"".join(items)
    return make_envelope(kind.gvk(version).api_version, f"{kind.name}List", message)
