"""The codec of custom resources: JSON that follows the schema of a definition, with its keys sorted.

Objects carry their kind and apiVersion. Protobuf is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.apiserver.extensions.object_type import CustomObjectType
from understudy.apiserver.extensions.schemas import Schemas
from understudy.kinds.apiextensions.custom_resources import nested
from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.kinds.declarations.codec import NO_API_VERSION, Body, MissingKindError, Sent
from understudy.machinery.errors import internal_error
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import encode_map, go_interface
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.json import encode, type_meta_of
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

GO_TYPE = "*unstructured.Unstructured"


class StructuralCodec:
    """Reads and writes objects of a definition in one version."""

    head = item_head = b""
    go_type = GO_TYPE
    takes_any_kind = True

    def __init__(self, schemas: Schemas, version: str) -> None:
        definition = schemas.definition
        self.kind = GroupVersionKind(definition.group, version, definition.kind)
        self.object_type = CustomObjectType(schemas, version)
        self._schemas = schemas
        self._list_kind = definition.list_kind

    def sent_kind(self, api_version: str, kind: str, text: Callable[[], str]) -> GroupVersionKind:
        """Return the kind that a body names, which it has to. Raises DecodeError."""
        if api_version.count("/") > 1:
            raise DecodeError(f"unexpected GroupVersion string: {api_version}")
        if not kind:
            raise MissingKindError(f"Object 'Kind' is missing in '{text()}'")
        return GroupVersionKind(*split_api_version(api_version), kind)

    def decode(self, body: Body, sent: GroupVersionKind) -> tuple[Obj, list[str]]:
        """Decode a body. Returns the object and its strict errors. Raises DecodeError."""
        value, strict = body.value()
        return self._coerced(value, strict if body.reports_unknown else []), strict  # the handler sets the defaults

    def decode_patched(self, document: Any, text: Callable[[], str]) -> tuple[Sent, list[str]]:
        """Decode the document that a patch has made of an object. Raises DecodeError, and 500 for one without
        an apiVersion."""
        api_version, kind = type_meta_of(document)
        sent = self.sent_kind(api_version, kind, text)
        strict: list[str] = []
        obj = self._coerced(with_go_numbers(document), strict)
        if not api_version:
            raise internal_error(NO_API_VERSION)
        return Sent(self._schemas.default(obj), sent), strict

    def _coerced(self, value: Obj, strict: list[str]) -> Obj:
        """Return an object, which has Go's numbers, as the schema of the version that it names has it, with metadata of
        its own. An object of another kind keeps all its fields. Raises DecodeError for an `apiVersion` of null."""
        api_version, refusal = nested(value, ".apiVersion", str, "string")
        if refusal:
            raise DecodeError(refusal)
        group, version = split_api_version(api_version or "")
        is_own = (group, value["kind"]) == (self.kind.group, self.kind.kind)
        schema = self._schemas.of(version) if is_own else self._schemas.of_other_kinds
        unknown: list[str] = []
        obj = schema.coerce(value, unknown)
        strict += [f'unknown field "{path}"' for path in unknown]
        return obj if obj.get("metadata") else {**obj, "metadata": {}}

    def in_order(self, obj: Obj) -> Obj:
        """Return an object with the keys of all its maps sorted."""
        ordered: Obj = go_interface(obj)
        return ordered

    def named(self, obj: Obj) -> Obj:
        """Return the object: it has been sent with its kind and apiVersion, which validation checks."""
        return obj

    def encode_fields(self, obj: Obj) -> bytes:
        """Return the JSON of an object."""
        return encode_map(obj)

    def encode_message(self, obj: Obj) -> bytes:
        """Raise TypeError: custom resources have no protobuf messages."""
        raise TypeError(f"{self.kind.kind} has no protobuf message")

    def encode_cbor(self, obj: Obj) -> bytes:
        """Return an object as a data item of CBOR."""
        return cbor.encode_item(obj, None)

    def list_of(self, metadata: Obj, objects: list[Obj]) -> Obj:
        """Return a list of objects. Its metadata always has a continue token."""
        return {
            "apiVersion": self.kind.api_version,
            "items": objects,
            "kind": self._list_kind,
            "metadata": {"continue": "", **metadata},
        }

    def around_items(self, metadata: Obj) -> tuple[bytes, bytes]:
        """Return the JSON of a list before and after its items."""
        document = self.list_of(metadata, [])
        before = encode({name: document[name] for name in ("apiVersion", "items")})
        after = encode_map({name: document[name] for name in ("kind", "metadata")})
        return before[:-2], b"]," + after[1:] + b"\n"

    def metadata(self, obj: Obj) -> Obj:
        """Return the metadata of an object with its fields in the order in which Go declares them."""
        return in_field_order(obj["metadata"], self._schemas.metadata)

    def empty(self) -> Obj:
        """Return an object of which nothing is set."""
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {}}

    def empty_list(self) -> Obj:
        """Return a list of which nothing is set."""
        return {"apiVersion": self.kind.api_version, "items": [], "kind": self._list_kind}
