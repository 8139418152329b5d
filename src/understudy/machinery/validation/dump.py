"""Printing of internal Go values in error texts.

Up to 1.33 they are printed in Go syntax (%#v):

    resource.ResourceClaimSpec{Devices:resource.DeviceClaim{Requests:[]resource.DeviceRequest(nil), …}}

Pointers are addresses there, and nil and empty lists look different: an empty list in the value is an empty one, a
missing field or null is nil, and `WithEmptyFields` remembers which lists a decoded body had empty. From 1.34 on values
are printed as JSON with the internal fields' Go names. A value is JSON of any API version whose fields have those
names.
"""

from __future__ import annotations

from calendar import month_name
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from understudy.machinery import quantity
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.golang.text import ADDRESS, go_float, go_quote
from understudy.machinery.releases.version import V1_34
from understudy.machinery.serializer.json_fast import WithEmptyFields, zero_value_of
from understudy.machinery.typeinfo.go_types import Custom, Field, List, Map, Scalar, Schemas, Shape, Struct
from understudy.machinery.types import Obj

_ZERO_TIME = "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)"
_INTERNAL = "k8s.io/kubernetes/pkg/apis/"


def dump(value: Any, name: str, schemas: Schemas) -> str:
    """Print JSON of the Go type `name`, such as "k8s.io/kubernetes/pkg/apis/resource.DeviceClaim"."""
    if schemas.version < V1_34:
        return _go(value, schemas.shape(name))
    return dump_json(value, name, schemas)


def dump_json(value: Any, name: str, schemas: Schemas) -> str:
    """Print JSON of the Go type `name` in the form of 1.34 and later."""
    return encode(_json(value, schemas.shape(name))).decode(errors="surrogateescape")  # raw parts may be no UTF-8


# --- the fields of an internal type, and their places in JSON


@cache
def _spellings(struct: Struct) -> dict[str, tuple[str, ...]]:
    """Return {Go name of a field: its JSON names in all API versions}: IntValue of Go is "int" in JSON."""
    package, _, plain = struct.name.rpartition(".")
    versions = f"{package.replace(_INTERNAL, 'k8s.io/api/')}/"  # elsewhere they are below the internal ones
    spellings: dict[str, dict[str, None]] = {}
    for name in struct.schemas.structs(versions, plain):
        for field in struct.schemas.struct(name).declared:
            spellings.setdefault(field.go_name, {})[field.json] = None
    return {go_name: tuple(names) for go_name, names in spellings.items()}


_EMBEDDED_META = ("ObjectMeta", "ListMeta")
_MISSING = object()


def _value_of(obj: Obj, struct: Struct, field: Field) -> Any:
    """Return the JSON of one field, None where it is nil. An inlined struct's is the JSON of the whole."""
    if not field.json:
        return {} if field.go_name == "TypeMeta" else obj.get("metadata") if field.go_name in _EMBEDDED_META else obj
    for name in (field.json, *_spellings(struct).get(field.go_name, ())):
        value = obj.get(name, _MISSING)
        if value is not _MISSING and value is not None:
            return value
        if isinstance(obj, WithEmptyFields) and name in obj.empty:
            return obj.empty[name]
    lowered = field.json.lower()
    return next((value for name, value in obj.items() if name.lower() == lowered), None)


# Structs that are either of two things in JSON: {type: {class of the JSON: its field}}.
_EITHER: dict[str, dict[type, str]] = {
    "JSONSchemaPropsOrArray": {dict: "Schema", list: "JSONSchemas"},
    "JSONSchemaPropsOrBool": {dict: "Schema", bool: "Allows"},
    "JSONSchemaPropsOrStringArray": {dict: "Schema", list: "Property"},
}


def _fields_of_either(value: Any, name: str) -> Obj:
    """Return the fields of a struct that is either of two things: a schema allows values, too."""
    field = next((field for base, field in _EITHER[name].items() if isinstance(value, base)), "")
    return {"Allows": isinstance(value, dict), field: value}


def members(value: Any, struct: Struct) -> Iterator[tuple[Field, Any]]:
    """Yield the fields of an internal struct in Go's order, each with its JSON in `value` (None for nil or zero)."""
    if struct.type_name in _EITHER:
        value = _fields_of_either(value, struct.type_name)
    obj = value if isinstance(value, dict) else {}
    for field in struct.declared:
        yield field, _value_of(obj, struct, field)


# --- %#v


def _go(value: Any, shape: Shape) -> str:
    if isinstance(shape, Struct):
        return f"{shape.go}{{{', '.join(_go_member(field, item) for field, item in members(value, shape))}}}"
    if isinstance(shape, List):
        return _go_list(value, shape)
    if isinstance(shape, Map):
        return _go_map(value, shape)
    if isinstance(shape, Custom):
        return _go_custom(value, shape)
    return _go_scalar(value, shape)


def _go_member(field: Field, value: Any) -> str:
    return f"{field.go_name}:{_go_pointer(value, field.type) if field.pointer else _go(value, field.type)}"


def _go_pointer(value: Any, shape: Shape) -> str:
    """Print a pointer: a time prints itself, anything else its address."""
    if isinstance(shape, Custom) and shape.name in ("Time", "MicroTime"):
        return "<nil>" if value is None else _go_custom(value, shape)
    return f"(*{shape.go})({'nil' if value is None else ADDRESS})"


def _go_list(value: Any, shape: List) -> str:
    if value is None:
        return f"{shape.go}(nil)"
    items = (_go_pointer(item, shape.element) if shape.pointer else _go(item, shape.element) for item in value)
    return f"{shape.go}{{{', '.join(items)}}}"


def _go_map(value: Any, shape: Map) -> str:
    if value is None:
        return f"{shape.go}(nil)"
    return f"{shape.go}{{{', '.join(f'{go_quote(key)}:{_go(value[key], shape.value)}' for key in sorted(value))}}}"


def _go_scalar(value: Any, shape: Scalar) -> str:
    if shape.kind == "interface":
        return f"{shape.go}(nil)" if value is None else go_quote(str(value))
    if shape.kind == "bytes":
        return "[]uint8(nil)" if value is None else _octets(value.encode())
    if shape.kind == "string":
        return go_quote(value or "")
    if shape.kind == "bool":
        return "true" if value else "false"
    return go_float(value or 0)


def _octets(value: bytes) -> str:
    return f"[]uint8{{{', '.join(f'0x{byte:x}' for byte in value)}}}"


def _go_custom(value: Any, shape: Custom) -> str:
    if shape.name in ("Time", "MicroTime"):
        return _go_time(value)
    if shape.name == "Quantity":
        return _go_quantity(value)
    if shape.name == "IntOrString":
        is_text = isinstance(value, str)
        number, text = (0, value) if is_text else (value or 0, "")
        return f"{shape.go}{{Type:{int(is_text)}, IntVal:{number}, StrVal:{go_quote(text)}}}"
    raw = "[]uint8(nil)" if value is None else _octets(value.source if isinstance(value, Raw) else encode(value))
    more = ", Object:runtime.Object(nil)" if shape.name == "RawExtension" else ""
    return f"{shape.go}{{Raw:{raw}{more}}}"


def _go_time(value: str | None) -> str:
    if not value:
        return _ZERO_TIME
    at = datetime.fromisoformat(value)
    clock = f"{at.hour}, {at.minute}, {at.second}, {at.microsecond * 1000}"
    return f"time.Date({at.year}, time.{month_name[at.month]}, {at.day}, {clock}, time.Local)"


def _go_quantity(value: Any) -> str:
    amount = quantity.Quantity(0, 0, "") if value is None else quantity.parse_as_sent(value)
    number, scale = (0, 0) if amount.big else (amount.value, amount.exponent)
    decimal = ADDRESS if amount.big else "nil"
    i = f"resource.int64Amount{{value:{number}, scale:{scale}}}"
    d = f"resource.infDecAmount{{Dec:(*inf.Dec)({decimal})}}"
    return f"resource.Quantity{{i:{i}, d:{d}, s:{go_quote(amount.text)}, Format:{go_quote(amount.format)}}}"


# --- JSON


def _json(value: Any, shape: Shape, *, pointer: bool = False) -> Any:
    """Return the internal value as Go's encoder sees it, in JSON that `encode` writes."""
    if value is None and (pointer or not isinstance(shape, Struct)):
        nil = pointer or isinstance(shape, (List, Map)) or (isinstance(shape, Scalar) and shape.kind == "bytes")
        return None if nil else zero_value_of(shape)()
    if isinstance(shape, Struct):
        return _json_struct(value, shape)
    if isinstance(shape, List):
        return [_json(item, shape.element, pointer=shape.pointer) for item in value]
    if isinstance(shape, Map):
        return {key: _json(value[key], shape.value) for key in sorted(value)}
    return value


def _json_struct(value: Any, struct: Struct) -> Obj:
    out: Obj = {}
    for field, item in members(value, struct):
        if not field.json:
            out |= _json(item, field.type)
            continue
        encoded = _json(item, field.type, pointer=field.pointer)
        structured = not field.pointer and isinstance(field.type, (Struct, Custom))
        kept = encoded is not None if field.pointer else bool(encoded)
        if kept or not (field.omitzero or (field.omitempty and not structured)):
            out[field.json] = encoded
    return out
