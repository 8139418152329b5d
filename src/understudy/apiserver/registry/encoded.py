"""Stored objects as JSON and protobuf, in every served version: encoded once per revision, and joined to lists."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from understudy.apiserver.registry.conversion import bare, from_internal
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.golang.deep_recursion import call_deeply
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.json import encode
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.serializer.protobuf_wire import length_delimited, make_envelope
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import Obj

METADATA, ITEMS = b"\x0a", b"\x12"  # tags of the fields `metadata` and `items` in the protobuf of every list


def versioned(entry: Entry, kind: Kind, version: str) -> Obj:
    """Return the object of an entry in a version. It is shared: do not edit it."""
    key = ("object", kind.group, version)
    cached: Obj | None = entry.cache.get(key)
    if cached is None:
        cached = entry.cache[key] = call_deeply(_ordered, entry.object, kind, version)
    return cached


def _ordered(obj: Obj, kind: Kind, version: str) -> Obj:
    """Return an internal object in a version, its fields in the order in which they are written."""
    return in_field_order(from_internal(kind, version, obj), kind.struct(version))


@lru_cache
def _head(kind: Kind, version: str) -> bytes:
    """Return how the JSON of an object begins: `{"kind":"Pod","apiVersion":"v1",`."""
    return encode({"kind": kind.name, "apiVersion": kind.gvk(version).api_version})[:-1] + b","


def _fields(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the JSON of an entry's fields after kind and apiVersion, closing brace included. Encodes it once."""
    key = (kind.group, version)
    cached: bytes | None = entry.cache.get(key)
    if cached is None:
        cached = entry.cache[key] = encode(bare(versioned(entry, kind, version)))[1:]
    return cached


def encoded(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as JSON, without a newline at the end."""
    return _head(kind, version) + _fields(entry, kind, version)


def encoded_list(kind: Kind, version: str, metadata: dict[str, Any], entries: list[Entry]) -> bytes:
    """Return a list as JSON, joined from the JSON of its entries."""
    api_version = kind.gvk(version).api_version
    head = encode({"kind": f"{kind.name}List", "apiVersion": api_version, "metadata": metadata})
    if not entries:
        return head[:-1] + b',"items":[]}\n'
    key = (kind.group, version)
    items = [entry.cache.get(key) or _fields(entry, kind, version) for entry in entries]
    return head[:-1] + b',"items":[{' + b",{".join(items) + b"]}\n"


def _message(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as a protobuf message. Encodes it once."""
    key = ("protobuf", kind.group, version)
    cached: bytes | None = entry.cache.get(key)
    if cached is None:
        obj = versioned(entry, kind, version)
        cached = entry.cache[key] = call_deeply(protobuf.encode_message, obj, kind.struct(version))
    return cached


def encoded_protobuf(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as protobuf, in its envelope (`runtime.Unknown`)."""
    key = ("protobuf body", kind.group, version)
    cached: bytes | None = entry.cache.get(key)
    if cached is None:
        cached = make_envelope(kind.gvk(version).api_version, kind.name, _message(entry, kind, version))
        entry.cache[key] = cached
    return cached


def _item(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the protobuf message of an entry as an item of a list, with tag and length. Encodes it once."""
    key = ("protobuf item", kind.group, version)
    cached: bytes | None = entry.cache.get(key)
    if cached is None:
        cached = entry.cache[key] = length_delimited(ITEMS, _message(entry, kind, version))
    return cached


def encoded_protobuf_list(kind: Kind, version: str, metadata: dict[str, Any], entries: list[Entry]) -> bytes:
    """Return a list as protobuf, in its envelope, joined from the messages of its entries."""
    shape = Schemas.of(kind.release).kind(kind.group, version, f"{kind.name}List").fields["metadata"].type
    assert isinstance(shape, Struct)
    key = ("protobuf item", kind.group, version)
    items = [entry.cache.get(key) or _item(entry, kind, version) for entry in entries]
    message = length_delimited(METADATA, protobuf.encode_message(metadata, shape)) + b"".join(items)
    return make_envelope(kind.gvk(version).api_version, f"{kind.name}List", message)
