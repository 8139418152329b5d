"""JSON decoded into a Go struct exactly as the real server does: errors, strict errors and duplicate fields included.

This is the slow path behind `json`. It mirrors the fork of encoding/json that kube-apiserver uses (sigs.k8s.io/json):
names are matched by case, the first type error is reported after the whole body was seen, errors of custom types at
once, and a repeated field is decoded twice, the second time into the value of the first.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from understudy.machinery import quantity
from understudy.machinery.golang.json_reader import DecodeError, Node, to_bytes
from understudy.machinery.golang.json_scalars import (
    base64_error_offset,
    interface_number,
    lenient_value,
    python_value,
    raw_number,
    sized_integer,
)
from understudy.machinery.golang.json_writer import with_source
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.times import TimeError, canonical_micro_time, canonical_time
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Shape, Struct

MAX_STRICT_ERRORS = 100


# Whether errors about types name inlined structs, and go on into types that decode themselves (sigs.k8s.io/json).
_FULL_PATHS = ByRelease({V1_35: True, V1_31: False})


def _go_path(struct: Struct, key: str) -> str:
    """Return the name of a field in errors about types, since 1.35 with the inlined structs that it is in."""
    inlined = struct.embedding.get(key, ()) if _FULL_PATHS[struct.schemas.version] else ()
    return ".".join((*inlined, key))


def _raw_number(literal: str) -> Any:
    """Return a number of raw JSON. Raises DecodeError for one beyond float64."""
    try:
        return raw_number(literal)
    except OverflowError:
        raise DecodeError(f"json: cannot unmarshal number {literal} into Go value of type float64") from None


class _TypeMismatchError(DecodeError):
    """A value of the wrong type (Go: `UnmarshalTypeError`): `what` it is, the Go type it should be, and where."""

    def __init__(self, text: str, what: str, go: str, field: str) -> None:
        super().__init__(text)
        self.what = what
        self.go = go
        self.field = field


class Decoder:
    """Decodes one body, once. `strict` gathers the strict errors, in order."""

    def __init__(self, text: str, *, strict: bool = True) -> None:
        self.text = text
        self.strict: list[str] = []
        self._is_strict = strict
        self._saved: DecodeError | None = None
        self._struct = ""
        self._fields: list[str] = []
        self._path: list[str] = []

    def decode(self, node: Node, shape: Shape) -> Any:
        """Decode a tree into a shape: duplicates merged, raw values with their bytes. Raises DecodeError."""
        value = self._value(node, shape, {})
        if self._saved:
            raise self._first_error()
        return value

    # --- errors

    def _first_error(self) -> DecodeError:
        """Return the first type error, and forget it: its frames will refer to this decoder."""
        assert self._saved is not None
        error, self._saved = self._saved, None
        return error

    def _type_error(self, what: str, go: str, inner: str = "") -> _TypeMismatchError:
        """Return the error of a value; `inner` is its path below the current field, "" for the field itself."""
        field = ".".join((*self._fields, inner) if inner else self._fields)
        where = f"Go struct field {self._struct}.{field}" if self._fields else "Go value"
        return _TypeMismatchError(f"json: cannot unmarshal {what} into {where} of type {go}", what, go, field)

    def _mismatch(self, what: str, go: str, old: Any) -> Any:
        """Remember the first type error, and return the old value, which stays."""
        self._saved = self._saved or self._type_error(what, go)
        return old

    def _add_strict_error(self, what: str, name: str) -> None:
        """Add a strict error about a field: `what` is unknown or duplicate."""
        if not self._is_strict or len(self.strict) >= MAX_STRICT_ERRORS:
            return
        text = f"{what} field {go_quote(''.join((*self._path, self._step(name))))}"
        if text not in self.strict:
            self.strict.append(text)

    def _step(self, key: str) -> str:
        return f".{key}" if self._path else key

    # --- values

    def _value(self, node: Node, shape: Shape, old: Any, *, pointer: bool = False) -> Any:
        """Decode `node` over `old`, the value that an earlier duplicate left, or None."""
        if node.kind == "null" and (pointer or not isinstance(shape, (Struct, Custom, Scalar))):
            return None
        if isinstance(shape, Struct):
            return self._object(node, shape, old)
        if isinstance(shape, List):
            return self._list(node, shape, old)
        if isinstance(shape, Map):
            return self._map(node, shape, old)
        if isinstance(shape, Custom):
            return self._custom(node, shape, old)
        return self._scalar(node, shape, old)

    def _object(self, node: Node, struct: Struct, old: Any) -> Any:
        if node.kind == "null":
            return old
        if node.kind != "object":
            return self._mismatch(node.kind, struct.go, old)
        out = dict(old) if isinstance(old, dict) else {}
        seen: set[str] = set()
        outer = self._struct
        for key, item in node.value:
            field = struct.fields.get(key)
            if field is None:
                self._add_strict_error("unknown", key)
                continue
            if key in seen:
                self._add_strict_error("duplicate", key)
            seen.add(key)
            self._struct = struct.type_name
            self._fields.append(_go_path(struct, key))
            self._path.append(self._step(key))
            out[key] = self._value(item, field.type, out.get(key), pointer=field.pointer)
            self._path.pop()
            self._fields.pop()
            self._struct = outer
        return out

    def _list(self, node: Node, shape: List, old: Any) -> Any:
        if node.kind != "array":
            return self._mismatch(node.kind, shape.go, old)
        before = old if isinstance(old, list) else []
        out = []
        for i, item in enumerate(node.value):
            self._path.append(f"[{i}]")
            old_item = before[i] if i < len(before) else None
            out.append(self._value(item, shape.element, old_item, pointer=shape.pointer))
            self._path.pop()
        return out

    def _map(self, node: Node, shape: Map, old: Any) -> Any:
        if node.kind != "object":
            return self._mismatch(node.kind, shape.go, old)
        out = dict(old) if isinstance(old, dict) else {}
        seen: set[str] = set()
        for key, item in node.value:
            if key in seen:
                self._add_strict_error("duplicate", key)
            seen.add(key)
            self._path.append(self._step(key))
            out[key] = self._value(item, shape.value, None)
            self._path.pop()
        return out

    def _scalar(self, node: Node, shape: Scalar, old: Any) -> Any:
        if shape.kind == "interface":
            return self._interface(node)
        if node.kind == "null":
            return None if shape.kind == "bytes" else old
        if shape.kind == "bytes":
            return self._bytes(node, shape, old)
        expected = {"string": "string", "bool": "bool"}.get(shape.kind, "number")
        if node.kind != expected:
            return self._mismatch(node.kind, shape.go, old)
        if expected != "number":
            return node.value
        value = self._float(node) if shape.kind.startswith("float") else sized_integer(node.value, shape.kind)
        return self._mismatch(f"number {node.value}", shape.go, old) if value is None else value

    def _float(self, node: Node) -> Any:
        value = float(node.value)
        return None if value in (float("inf"), float("-inf")) else value

    def _bytes(self, node: Node, shape: Scalar, old: Any) -> Any:
        if node.kind == "array":
            values = self._list(node, List(Scalar("uint8", "uint8"), False), None)
            return b64encode(bytes(value or 0 for value in values)).decode()
        if node.kind != "string":
            return self._mismatch(node.kind, shape.go, old)
        text = node.value.replace("\r", "").replace("\n", "")
        offset = base64_error_offset(node.value)
        if offset is not None:
            self._saved = self._saved or DecodeError(f"illegal base64 data at input byte {offset}")
            return old
        return b64encode(b64decode(text)).decode()

    def _interface(self, node: Node) -> Any:
        """Decode into an `interface{}`: any JSON value; only duplicate keys are errors."""
        if node.kind == "array":
            out = []
            for i, item in enumerate(node.value):
                self._path.append(f"[{i}]")
                out.append(self._interface(item))
                self._path.pop()
            return out
        if node.kind == "object":
            obj: dict[str, Any] = {}
            for key, item in node.value:
                if key in obj:
                    self._add_strict_error("duplicate", key)
                self._path.append(self._step(key))
                obj[key] = self._interface(item)
                self._path.pop()
            return obj
        if node.kind != "number":
            return node.value
        try:
            return interface_number(node.value)
        except OverflowError:
            return self._mismatch(f"number {node.value}", "float64", None)

    # --- custom types, whose errors end the decoding immediately

    def _source(self, node: Node) -> bytes:
        return to_bytes(self.text[node.start : node.end])

    def _custom(self, node: Node, shape: Custom, old: Any) -> Any:
        return _CUSTOM[shape.name](self, node, shape, old)

    def _time(self, node: Node, convert: Callable[[str], str | None]) -> Any:
        if node.kind == "null":
            return None
        if node.kind != "string":
            raise self._type_error(node.kind, "string")
        try:
            return convert(node.value)
        except TimeError as error:
            raise DecodeError(str(error)) from error

    def _quantity(self, node: Node) -> Any:
        if node.kind == "null":
            return None
        literal = self.text[node.start : node.end]
        text = literal[1:-1] if node.kind == "string" else literal
        try:
            quantity.parse(text.strip())
        except quantity.QuantityError as error:
            raise DecodeError(str(error)) from error
        return text

    def _int_or_string(self, node: Node, old: Any) -> Any:
        if node.kind == "string":
            return node.value
        if node.kind == "null":
            return 0
        if node.kind != "number":
            raise self._type_error(node.kind, "int32")
        value = sized_integer(node.value, "int32")
        if value is None:
            raise self._type_error(f"number {node.value}", "int32")
        return value

    def _raw(self, node: Node, old: Any) -> Any:
        if node.kind == "null":
            return old
        return with_source(lenient_value(node), self._source(node))

    def _json(self, node: Node, old: Any) -> Any:
        return old if node.kind == "null" else python_value(node, _raw_number)

    def _schema_or(self, node: Node, shape: Custom) -> Any:
        assert shape.schema is not None
        version = shape.schema.schemas.version
        if node.kind == "object":
            return self._inner(node, shape.schema, version)
        if shape.name == "JSONSchemaPropsOrBool":
            if node.kind != "bool":
                raise DecodeError("boolean or JSON schema expected")
            return node.value
        if node.kind != "array":
            return None
        strings = shape.name == "JSONSchemaPropsOrStringArray"
        return self._inner(node, List(Scalar("string", "string") if strings else shape.schema, False), version)

    def _inner(self, node: Node, shape: Shape, version: Version) -> Any:
        """Decode with another decoder, which is not strict, as UnmarshalJSON methods do."""
        inner = Decoder(self.text, strict=False)

        def outer(error: _TypeMismatchError) -> _TypeMismatchError:
            return self._type_error(error.what, error.go, error.field if _FULL_PATHS[version] else "")

        try:
            value = inner._value(node, shape, None)
        except _TypeMismatchError as error:
            raise outer(error) from error
        if isinstance(inner._saved, _TypeMismatchError):
            raise outer(inner._saved)
        if inner._saved:
            raise inner._first_error()
        return value


_CUSTOM: dict[str, Callable[[Decoder, Node, Custom, Any], Any]] = {
    "Time": lambda decoder, node, shape, old: decoder._time(node, canonical_time),
    "MicroTime": lambda decoder, node, shape, old: decoder._time(node, canonical_micro_time),
    "Quantity": lambda decoder, node, shape, old: decoder._quantity(node),
    "IntOrString": lambda decoder, node, shape, old: decoder._int_or_string(node, old),
    "RawExtension": lambda decoder, node, shape, old: decoder._raw(node, old),
    "FieldsV1": lambda decoder, node, shape, old: decoder._json(node, old),
    "JSON": lambda decoder, node, shape, old: decoder._json(node, old),
    "JSONSchemaPropsOrArray": lambda decoder, node, shape, old: decoder._schema_or(node, shape),
    "JSONSchemaPropsOrBool": lambda decoder, node, shape, old: decoder._schema_or(node, shape),
    "JSONSchemaPropsOrStringArray": lambda decoder, node, shape, old: decoder._schema_or(node, shape),
}
