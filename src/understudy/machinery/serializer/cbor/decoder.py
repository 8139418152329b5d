"""The values of CBOR items as Go types have them, with the errors of github.com/fxamacker/cbor.

A null key of a map is the key before it, and a null scalar the value before it, as Go's reader has it by mistake.
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

from understudy.machinery import quantity
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_scalars import base64_error_offset
from understudy.machinery.golang.json_writer import as_read_again, encode_sorted, with_source
from understudy.machinery.golang.text import go_quote, go_scalar
from understudy.machinery.golang.times import TimeError, canonical_micro_time, canonical_time
from understudy.machinery.serializer.cbor.items import (
    ARRAY,
    BYTES,
    MAP,
    NEGATIVE,
    POSITIVE,
    PRIMITIVE,
    TAG,
    TEXT,
    Item,
    Simple,
    unrecognized,
)
from understudy.machinery.serializer.cbor.times import EPOCH, RFC3339, time_text
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import NamedTuple, Obj

_AS_TEXT: dict[int, Callable[[bytes], bytes]] = {  # by tag: how a byte string becomes text
    21: lambda data: urlsafe_b64encode(data).rstrip(b"="),
    22: b64encode,
    23: lambda data: data.hex().encode(),
}
_TAGGED = {RFC3339: ("text string", (TEXT,)), EPOCH: ("integer or floating-point number", (POSITIVE, NEGATIVE))}
_LAST_CORE_TAG = 5
_BITS = {"int": 63, "int64": 63, "int32": 31, "int16": 15, "int8": 7}
_UNSIGNED_BITS = {"uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8}
_STRING, _INT32, ANY = Scalar("string", "string"), Scalar("int32", "int32"), Scalar("interface", "interface {}")
UNSTRUCTURED = Map(_STRING, ANY)


class _Other(NamedTuple):
    """A key of a struct that is neither a string nor a number, or has a tag; it is none of the same value without."""

    value: Any


class _MismatchError(DecodeError):
    """A value of the wrong type (Go: `UnmarshalTypeError`): `what` it is, the Go type it should be, and where."""

    def __init__(self, what: str, go: str, note: str = "") -> None:
        self.what = what
        self.go = go
        self.note = f" ({note})" if note else ""
        self.field = ""

    def __str__(self) -> str:
        where = f"Go struct field {self.field}" if self.field else "Go value"
        return f"cbor: cannot unmarshal {self.what} into {where} of type {self.go}{self.note}"


class Decoder:
    """Decodes one body, once, value by value.

    error     the first one, None if there is none; a map with a key twice has none but that
    unknown   the index of the first unknown field in its map; those of outer structs come first
    failures  the number of values that could not be decoded
    raw       the error of the first raw part that is no JSON
    """

    def __init__(self, *, refuses_unknown: bool = False) -> None:
        self._refuses_unknown = refuses_unknown
        self.error: DecodeError | None = None
        self.raw: DecodeError | None = None
        self.unknown: int | None = None
        self.failures = 0
        self._later: int | None = None  # the tag that says how byte strings become text

    def check(self) -> None:
        """Raise the error of the body, if it has one."""
        if self.error or self.raw:
            raise self._first_error()

    def _first_error(self) -> DecodeError:
        """Return the error of the body, and forget it: its frames will refer to this decoder."""
        error, self.error, self.raw = self.error or self.raw, None, None
        assert error is not None
        return error

    def value(self, item: Item, shape: Shape, *, pointer: bool = False) -> Any:
        """Return a value as a shape has it, None for null and for a value that is wrong."""
        if pointer and not item.tags and (item.value is None or _is_undefined(item)):
            return None
        if (error := _tag_error(item)) is not None:
            return self._fail(error)
        outer = self._later
        if isinstance(shape, Custom):
            self._later = None
        for tag in item.tags:
            self._later = tag if tag in _AS_TEXT else self._later
        try:
            return self._value(item, shape)
        finally:
            self._later = outer

    def _value(self, item: Item, shape: Shape) -> Any:
        if isinstance(shape, Custom):
            return _CUSTOM[shape.name](self, item, shape)
        if isinstance(item.value, Simple):
            return self._fail(unrecognized(item.value))
        if item.value is None or (item.kind == TEXT and self._text(item) is None):
            return None
        if shape is ANY or (isinstance(shape, Scalar) and shape.kind == "interface"):
            return self._any(item)
        if item.kind == NEGATIVE and item.value < -(2**63):
            return self._mismatch(item, shape, f"{item.value} overflows Go's int64")
        if isinstance(shape, Scalar):
            return self._scalar(item, shape)
        if isinstance(shape, Struct):
            return self._struct(item, shape)
        if isinstance(shape, Map):
            return self._map(item, shape) if item.kind == MAP else self._mismatch(item, shape)
        if item.kind != ARRAY:
            return self._mismatch(item, shape)
        return [self.value(child, shape.element, pointer=shape.pointer) for child in item.value]

    # --- errors

    def _fail(self, error: DecodeError) -> Any:
        """Note an error, and return None for the value."""
        self.failures += 1
        self.error = self.error or error
        return None

    def _mismatch(self, item: Item, shape: Shape, note: str = "") -> Any:
        return self._fail(_MismatchError(item.kind, shape.go, note))

    # --- containers

    def _struct(self, item: Item, struct: Struct) -> Any:
        if item.kind != MAP:
            note = "cannot decode CBOR array to struct without toarray option" if item.kind == ARRAY else ""
            return self._mismatch(item, struct, note)
        outer, self.error = self.error, None
        outer_unknown, self.unknown = self.unknown, None
        out: Obj = {}
        others: set[Any] = set()
        own_unknown: int | None = None
        for index, (key, child) in enumerate(item.value):
            name, is_key = self._key(key)
            if not is_key:
                continue
            field = struct.fields.get(name) if key.kind in (TEXT, BYTES) else None
            if name in out or name in others:
                self.failures += 1
                self.error = _duplicate(name, index)
                break
            if field is None and self._refuses_unknown:
                self.failures += 1
                self.error = DecodeError(unknown_field(index))
                break
            if field is None:
                others.add(name)
                own_unknown = index if own_unknown is None else own_unknown
                continue
            before = self.error
            out[name] = self.value(child, field.type, pointer=field.pointer)
            if before is None and isinstance(self.error, _MismatchError):
                self.error.field = f"{struct.go}.{name}"
        self.error = outer or self.error
        unknown = self.unknown if own_unknown is None else own_unknown
        self.unknown = unknown if outer_unknown is None else outer_unknown
        return out

    def _key(self, key: Item) -> tuple[Any, bool]:
        """Return a key of a struct, and whether it is one."""
        if key.kind in (TEXT, BYTES) and not key.tags:
            failures = self.failures
            later, self._later = self._later, None
            name = self._text(key)
            self._later = later
            return name, self.failures == failures
        if key.kind in (POSITIVE, NEGATIVE) and not key.tags:
            if not -(2**63) <= key.value < 2**63:
                argument = key.value if key.kind == POSITIVE else f"-1-{-1 - key.value}"
                self._fail(_MismatchError(key.kind, "int64", f"{argument} overflows Go's int64"))
                return None, False
            return key.value, True
        kind = TAG if key.tags else key.kind
        note = f"map key is of type {kind} and cannot be used to match struct field name"
        self._fail(_MismatchError(kind, "string", note))
        failures = self.failures
        value = self.value(key, ANY)
        return _Other(value), self.failures == failures and key.kind not in (MAP, ARRAY)

    def _map(self, item: Item, shape: Map) -> Obj:
        """Return a map. Go reads null over what stands there: the key before, and the value if it is a scalar."""
        outer, self.error = self.error, None
        keeps_value = isinstance(shape.value, Scalar) and shape.value.kind not in ("bytes", "interface")
        out: Obj = {}
        name, value = "", None
        for index, (key, child) in enumerate(item.value):
            failures = self.failures
            sent = self.value(key, shape.key)
            if self.failures > failures:
                continue
            name = name if sent is None else sent
            before, value = value, self.value(child, shape.value)
            if value is None and keeps_value:
                value = before
            if self.failures > failures:
                continue
            if name in out:
                self.failures += 1
                self.error = _duplicate(name, index)
                break
            out[name] = value
        self.error = outer or self.error
        return out

    # --- scalars

    def _text(self, item: Item) -> Any:
        """Return a string; byte strings need not be UTF-8."""
        if item.kind == BYTES:
            data: bytes = item.value if self._later is None else _AS_TEXT[self._later](item.value)
            return data.decode("utf-8", "surrogateescape")
        try:
            return "".join([part.value.decode() for part in item.chunks or (item,)])
        except UnicodeDecodeError:
            return self._fail(DecodeError("cbor: invalid UTF-8 string"))

    def _scalar(self, item: Item, shape: Scalar) -> Any:
        kind, value = shape.kind, item.value
        if kind == "bytes":
            return self._bytes(item, shape)
        if kind == "string" and item.kind in (TEXT, BYTES):
            return self._text(item)
        if kind == "bool" and isinstance(value, bool):
            return value
        if kind.startswith("float") and item.kind not in (TEXT, BYTES, ARRAY, MAP) and not isinstance(value, bool):
            return float(value)
        if (kind in _BITS and item.kind in (POSITIVE, NEGATIVE)) or (kind in _UNSIGNED_BITS and item.kind == POSITIVE):
            return self._integer(item, shape)
        return self._mismatch(item, shape)

    def _integer(self, item: Item, shape: Scalar) -> Any:
        value: int = item.value
        least = -(2 ** _BITS[shape.kind]) if shape.kind in _BITS else 0
        if least <= value < 2 ** (_BITS | _UNSIGNED_BITS)[shape.kind]:
            return value
        return self._mismatch(item, shape, f"{value} overflows {shape.go}")

    def _bytes(self, item: Item, shape: Scalar) -> Any:
        """Return a []byte as base64 text."""
        if item.kind == ARRAY:
            numbers = [self.value(child, Scalar("uint8", "uint8")) for child in item.value]
            return b64encode(bytes(number or 0 for number in numbers)).decode()
        if item.kind != BYTES:
            return self._mismatch(item, shape)
        if self._later is not None:
            return b64encode(item.value).decode()
        offset = base64_error_offset(item.value.decode("latin-1"))
        if offset is not None:
            what = f"illegal base64 data at input byte {offset}"
            return self._fail(DecodeError(f"cbor: failed to decode base64 from byte string: {what}"))
        return b64encode(b64decode(item.value)).decode()

    def _any(self, item: Item) -> Any:
        """Return a value of type `interface{}`."""
        for tag in item.tags:
            if tag in (RFC3339, EPOCH):
                return self._tagged_time(item)
        if item.kind in (POSITIVE, NEGATIVE):
            if -(2**63) <= item.value < 2**63:
                return item.value
            return self._fail(_MismatchError(item.kind, "int64", f"{item.value} overflows Go's int64"))
        if item.kind == PRIMITIVE:
            return item.value
        if item.kind == ARRAY:
            return [self.value(child, ANY) for child in item.value]
        return self._map(item, UNSTRUCTURED) if item.kind == MAP else self._text(item)

    def _tagged_time(self, item: Item) -> Any:
        """Return the text of a time that is tagged as one."""
        failures = self.failures
        value: Any = self._text(item) if item.kind == TEXT else item.value
        if self.failures > failures:
            return None
        try:
            return time_text(value)
        except DecodeError as error:
            return self._fail(error)

    # --- types that decode themselves

    def time(self, item: Item, convert: Callable[[str], str | None]) -> Any:
        """Return a Time or a MicroTime."""
        text = self.value(item, _STRING, pointer=True)
        try:
            return None if text is None else convert(text)
        except TimeError as error:
            return self._fail(DecodeError(str(error)))

    def quantity(self, item: Item) -> Any:
        """Return a Quantity, which no number can be."""
        text: str | None = self.value(item, _STRING, pointer=True)
        try:
            if text is not None:
                quantity.parse(text.strip())
        except quantity.QuantityError as error:
            return self._fail(DecodeError(str(error)))
        return text

    def int_or_string(self, item: Item) -> Any:
        """Return an IntOrString; null is the empty string."""
        other = Decoder()
        text = other.value(item, _STRING)
        return text or "" if other.error is None else self.value(item, _INT32)

    def any(self, item: Item) -> Any:
        """Return a value that is JSON in Go, with the numbers of the JSON that it is transcoded to."""
        return as_read_again(self.value(item, ANY))

    def fields(self, item: Item) -> Any:
        """Return a FieldsV1, whose errors are those of the JSON that it is transcoded to."""
        other = Decoder()
        value = other.value(item, UNSTRUCTURED if _is_fields(item) else ANY)
        if other.error is not None:
            of = "failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid"
            self.raw = self.raw or DecodeError(f"{of}: {other.error}")
        return value

    def raw_extension(self, item: Item) -> Any:
        """Return a RawExtension, with the JSON that it is transcoded to."""
        other = Decoder()
        value = other.value(item, ANY)
        if other.error is not None:
            of = "failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR"
            self.raw = self.raw or DecodeError(f"{of}: {other.error}")
        return with_source(value, encode_sorted(value))

    def schema_or(self, item: Item, shape: Custom) -> Any:
        """Return a JSONSchemaPropsOr…, whose schemas refuse unknown fields, whatever the field validation says."""
        assert shape.schema is not None
        if shape.name == "JSONSchemaPropsOrBool" and item.kind != MAP:
            is_bool = isinstance(item.value, bool)
            return item.value if is_bool else self._fail(DecodeError("boolean or JSON schema expected"))
        if item.kind not in (MAP, ARRAY):
            return None
        element = _STRING if shape.name == "JSONSchemaPropsOrStringArray" else shape.schema
        other = Decoder(refuses_unknown=True)
        value = other.value(item, shape.schema if item.kind == MAP else List(element, False))
        return value if other.error is None else self._fail(other.error)


_CUSTOM: dict[str, Callable[[Decoder, Item, Custom], Any]] = {
    "Time": lambda decoder, item, shape: decoder.time(item, canonical_time),
    "MicroTime": lambda decoder, item, shape: decoder.time(item, canonical_micro_time),
    "Quantity": lambda decoder, item, shape: decoder.quantity(item),
    "IntOrString": lambda decoder, item, shape: decoder.int_or_string(item),
    "RawExtension": lambda decoder, item, shape: decoder.raw_extension(item),
    "FieldsV1": lambda decoder, item, shape: decoder.fields(item),
    "JSON": lambda decoder, item, shape: decoder.any(item),
    "JSONSchemaPropsOrArray": lambda decoder, item, shape: decoder.schema_or(item, shape),
    "JSONSchemaPropsOrBool": lambda decoder, item, shape: decoder.schema_or(item, shape),
    "JSONSchemaPropsOrStringArray": lambda decoder, item, shape: decoder.schema_or(item, shape),
}


def _is_fields(item: Item) -> bool:
    """Report whether an item looks like a FieldsV1 by its first byte (`getContentType`)."""
    return item.tags[0] > _LAST_CORE_TAG if item.tags else item.kind == MAP


def _is_undefined(item: Item) -> bool:
    return isinstance(item.value, Simple) and item.value == 23


def unknown_field(index: int) -> str:
    """Return the error for a field that nobody knows."""
    return f"cbor: found unknown field at map element index {index}"


def _duplicate(key: Any, index: int) -> DecodeError:
    """Return the error for the second of two equal keys in a map."""
    if isinstance(key, _Other):
        key = key.value
    text = go_quote(key) if isinstance(key, str) else "<nil>" if key is None else go_scalar(key)
    return DecodeError(f"cbor: found duplicate map key {text} at map element index {index}")


def _tag_error(item: Item) -> DecodeError | None:
    """Return the error for a tag of times that is on something else, None if there is none."""
    for at, tag in enumerate(item.tags):
        if tag not in _TAGGED:
            continue
        kind = TAG if at + 1 < len(item.tags) else item.kind
        expected, kinds = _TAGGED[tag]
        if kind not in kinds and not (tag == EPOCH and kind == PRIMITIVE and isinstance(item.value, float)):
            return DecodeError(f"cbor: tag number {tag} must be followed by {expected}, got {kind}")
    return None
