"""The type of a kind's objects in one API version, as managed fields and server-side apply need to know it.

`ObjectType` is what a kind offers; `GoObjectType` makes it of a Go struct. Custom resources have one of their own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.patch import unstructured
from understudy.machinery.patch.apply.go_equality import go_differences
from understudy.machinery.patch.structured_merge_diff.field_set import Set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, MapType, may_lack_keys, type_of
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.serializer.json import DecodeError, decode_value
from understudy.machinery.serializer.json_fast import keep_empty_fields, note_empty_fields, struct_converter
from understudy.machinery.typeinfo.go_types import List, Struct
from understudy.machinery.typeinfo.raw_parts import rewrite_raw
from understudy.machinery.types import Obj, split_api_version


class UnconvertibleError(Exception):
    """An object that is not what the schema of another version allows, so that its fields have no owners."""


class ObjectType(Protocol):
    """The type of a kind's objects in one API version (upstream: `managedfields.TypeConverter` and a scheme).

    kind        name of the kind, such as "Pod"
    merge_type  says which of its fields are owned one by one
    metadata    Go type of its metadata
    """

    @property
    def kind(self) -> str:
        """Return the name of the kind."""

    @property
    def merge_type(self) -> MapType:
        """Return the type that says which fields are owned one by one."""

    @property
    def metadata(self) -> Struct:
        """Return the Go type of the metadata."""

    def of_version(self, api_version: str) -> ObjectType | None:
        """Return the type of the same kind in an API version, None if that is gone.

        Raises UnconvertibleError for a version that a definition does not have, of which managed fields do not survive.
        """

    def empty(self, api_version: str) -> Obj:
        """Return an object before anything is set: the fields that are always written."""

    def decoded(self, obj: Obj) -> Obj:
        """Return an object as if it had been decoded. Raises InvalidValue."""

    def check(self, obj: Obj, fields: Set) -> None:
        """Raise InvalidValue if some fields of an object, or those that validation does not look at, do not have the
        types of the schema."""

    def check_stored(self, obj: Obj) -> None:
        """Raise InvalidValue for a stored object, without managed fields, that does not fit the schema.

        Upstream checks all objects (`ObjectToTyped`); here it costs nothing where none can be stored that does not.
        """

    def differences(self, old: Obj, new: Obj) -> Set:
        """Return the fields of `new` that differ from those of `old`, the stored object, although their JSON is the
        same."""

    def canonical(self, merged: Obj) -> Obj:
        """Return an object that apply has merged in the form in which it is stored. Raises DecodeError."""


class GoObjectType:
    """The type of objects that are Go structs."""

    def __init__(self, struct: Struct) -> None:
        self.struct = struct

    @property
    def kind(self) -> str:
        return self.struct.type_name

    @property
    def merge_type(self) -> MapType:
        return type_of(self.struct)

    @property
    def metadata(self) -> Struct:
        metadata = self.struct.fields["metadata"].type
        assert isinstance(metadata, Struct)
        return metadata

    def of_version(self, api_version: str) -> GoObjectType | None:
        try:
            return GoObjectType(self.struct.schemas.kind(*split_api_version(api_version), self.kind))
        except KeyError:
            return None

    def empty(self, api_version: str) -> Obj:
        return _empty_object(self.struct, api_version)  # shared, so it is not edited

    def decoded(self, obj: Obj) -> Obj:
        """Return an object as if it had been decoded, with its notes of empty fields. Raises InvalidValue."""
        try:
            decoded: Obj = decode_value(obj, self.struct)[0]
        except DecodeError as error:
            raise InvalidValue(str(error)) from None
        return _note_empty_fields(obj, decoded)

    def check(self, obj: Obj, fields: Set) -> None:
        """Raise nothing: an object whose fields have other types is not decoded."""

    def check_stored(self, obj: Obj) -> None:
        """Raise InvalidValue for an object with an element of a list that has no key, which few lists allow."""
        if may_lack_keys(self.merge_type):
            validate(self.merge_type, obj, allows_duplicates=True)

    def differences(self, old: Obj, new: Obj) -> Set:
        """Return the fields of `new` that equal those of `old` in JSON but not in Go."""
        return go_differences(self.struct, old, new)

    def canonical(self, merged: Obj) -> Obj:
        """Return an object in canonical form; its opaque parts are encoded again. Raises DecodeError."""
        obj, _ = unstructured.from_unstructured(merged, self.struct)
        rewritten: Obj = rewrite_raw(obj, self.struct, encode_sorted)
        noted: Obj = note_empty_fields(merged, rewritten)
        return noted


def check_converted(kind: MapType, obj: Obj) -> None:
    """Raise UnconvertibleError for an object of another version that does not fit the schema of a type: one with
    duplicates, or with an element of a list that has no key."""
    try:
        validate(kind, obj)
    except InvalidValue as error:
        raise UnconvertibleError(str(error)) from None


def are_managed_fields(value: Any, metadata: Struct) -> bool:
    """Report whether a value can be decoded as managedFields. `metadata` is the type of ObjectMeta."""
    if not isinstance(value, list):
        return False
    entries = metadata.fields["managedFields"].type
    assert isinstance(entries, List)
    assert isinstance(entries.element, Struct)
    try:
        for entry in value:
            unstructured.from_unstructured(entry, entries.element)
    except DecodeError:
        return False
    return True


@lru_cache(maxsize=1024)
def _empty_object(struct: Struct, api_version: str) -> Obj:
    obj: Obj = struct_converter(struct)({}, None)
    return {"apiVersion": api_version, "kind": struct.type_name, **obj}


def _note_empty_fields(source: Obj, decoded: Obj) -> Obj:
    """Return an object with the notes of empty fields that `source` has, in nested structs too, but not in lists."""
    for name, value in source.items():
        if isinstance(value, dict) and isinstance(decoded.get(name), dict):
            decoded[name] = _note_empty_fields(value, decoded[name])
    return keep_empty_fields(source, decoded)
