"""The codec of built-in kinds, whose objects are Go structs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from understudy.apiserver.encoding.conversion import bare
from understudy.kinds.declarations.codec import Body, Sent
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.golang.json_reader import parse, to_text
from understudy.machinery.golang.json_scalars import lenient_value
from understudy.machinery.golang.json_writer import Raw, with_source
from understudy.machinery.patch.apply.object_type import GoObjectType
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.json import decode_value, encode, type_meta_of
from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas, Struct
from understudy.machinery.typeinfo.raw_parts import change_raw
from understudy.machinery.typeinfo.scheme import decode_registered, gvk_with_defaults
from understudy.machinery.types import GroupVersionKind, Obj


class GoDecoder:
    """Decodes bodies of built-in kinds, those of subresources such as Scale among them."""

    takes_any_kind = False

    def __init__(self, schemas: Schemas, kind: GroupVersionKind) -> None:
        self.schemas = schemas
        self.kind = kind

    @cached_property
    def struct(self) -> Struct:
        """Return the Go type of the objects."""
        return self.schemas.kind(*self.kind)

    @cached_property
    def object_type(self) -> GoObjectType:
        return GoObjectType(self.struct)

    def sent_kind(self, api_version: str, kind: str, text: Callable[[], str]) -> GroupVersionKind:
        return gvk_with_defaults(api_version, kind, self.kind)  # parts that are left out are those of the path

    def decode(self, body: Body, sent: GroupVersionKind) -> tuple[Obj, list[str]]:
        return decode_registered(self.schemas, sent, self.kind, body.decode, body.text)

    def in_order(self, obj: Obj) -> Obj:
        return in_field_order(obj, self.struct)

    def decode_patched(self, document: Any, text: Callable[[], str]) -> tuple[Sent, list[str]]:
        """Decode a patched document as the type that it names, which may be another version of the kind.

        If it names none, that is the internal version, which does not know fields in JSON's spelling.
        """
        gvk = gvk_with_defaults(*type_meta_of(document), self.kind._replace(version=INTERNAL))
        obj, strict_errors = decode_registered(self.schemas, gvk, self.kind, partial(_decode_anew, document), text)
        if gvk.version == INTERNAL:
            gvk, obj = self.kind, self._from_internal_version(obj)
        return Sent(obj, gvk), strict_errors

    def _from_internal_version(self, obj: Obj) -> Obj:
        """Return an object decoded as the internal version: only its metadata remain, whose fields it has at the
        top."""
        metadata = self.struct.fields["metadata"].type
        assert isinstance(metadata, Struct)
        return decode_value({"metadata": {name: obj[name] for name in metadata.fields if name in obj}}, self.struct)[0]


class GoCodec(GoDecoder):
    """Reads and writes objects of a built-in kind in one API version."""

    item_head = b"{"

    @staticmethod
    def of(kind: Kind, version: str) -> GoCodec:
        """Return the codec of a kind in a version."""
        return GoCodec(Schemas.of(kind.release), kind.gvk(version))

    @cached_property
    def head(self) -> bytes:
        """Return the JSON of an object up to its fields: `{"kind":"Pod","apiVersion":"v1",`."""
        return encode({"kind": self.kind.kind, "apiVersion": self.kind.api_version})[:-1] + b","

    @property
    def go_type(self) -> str:
        """Return the Go type of the kind's internal objects."""
        return f"*{self.schemas.kind(self.kind.group, INTERNAL, self.kind.kind).go}"

    def named(self, obj: Obj) -> Obj:
        """Return a decoded object with its kind and apiVersion, in front."""
        obj = bare(obj)
        return keep_empty_fields(obj, {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **obj})

    def encode_fields(self, obj: Obj) -> bytes:
        """Return the JSON of an object's fields after kind and apiVersion, closing brace included."""
        return encode(bare(obj))[1:]

    def encode_message(self, obj: Obj) -> bytes:
        """Return an object as a protobuf message."""
        return protobuf.encode_message(obj, self.struct)

    def encode_cbor(self, obj: Obj) -> bytes:
        """Return an object as a data item of CBOR."""
        return cbor.encode_item(obj, self.struct)

    def list_of(self, metadata: Obj, objects: list[Obj]) -> Obj:
        """Return a list of objects, which do not repeat their kind."""
        kind = {"kind": f"{self.kind.kind}List", "apiVersion": self.kind.api_version}
        return {**kind, "metadata": metadata, "items": [bare(obj) for obj in objects]}

    def around_items(self, metadata: Obj) -> tuple[bytes, bytes]:
        """Return the JSON of a list before and after its items."""
        return encode(self.list_of(metadata, []))[:-2], b"]}\n"

    def metadata(self, obj: Obj) -> Obj:
        """Return the metadata of an object."""
        metadata: Obj = obj["metadata"]
        return metadata

    def empty(self) -> Obj:
        """Return an object of which nothing is set."""
        return self.named(decode_value({}, self.struct)[0])

    def empty_list(self) -> Obj:
        """Return a list of which nothing is set."""
        return {**self.list_of({}, []), "items": None}


def _decode_anew(document: Any, struct: Struct) -> tuple[Obj, list[str]]:
    """Decode a document as a type, its raw parts as they are spelled when it is written. Raises DecodeError."""
    obj, strict_errors = decode_value(document, struct)
    return change_raw(obj, struct, _written_anew), strict_errors


def _written_anew(raw: Raw) -> Any:
    """Return a raw part with the bytes that it has in an encoded object."""
    source = encode(raw)
    return with_source(lenient_value(parse(to_text(source))), source)
