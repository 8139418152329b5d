"""Objects as the generated `String` methods of Go's API types print them, for the errors that show a whole object.

    &NodeSelectorRequirement{Key:a,Operator:In,Values:[b c],}

Fields are in the order of their protobuf numbers. Maps, and structs that come by value of another package, are left
to `fmt` (%v), which prints pointers to scalars as addresses.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery import quantity
from understudy.machinery.golang.text import go_scalar
from understudy.machinery.typeinfo.go_types import Custom, Field, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj

_ADDRESS = "0xc000a1e5d0"  # any will do: clients cannot rely on it
_IMPORTED = {"k8s.io/api/core/v1": "v11."}  # names under which the generated files import packages of pointers
_KEYS = {"v1.ResourceName": "k8s_io_api_core_v1.ResourceName"}  # and of keys of maps


def generated_string(value: Any, struct: Struct) -> str:
    """Print a canonical object of a type, or "nil" for None."""
    if value is None:
        return "nil"
    members = sorted((field for field in struct.declared if field.number), key=lambda field: field.number)
    printed = (f"{field.go_name}:{_field(value, field, struct)}," for field in members)
    return f"&{struct.type_name}{{{''.join(printed)}}}"


def _field(obj: Obj, field: Field, struct: Struct) -> str:
    value, shape = obj.get(field.json), field.type
    if isinstance(shape, List):
        return _list(value, shape)
    if isinstance(shape, Map):
        key = shape.key.go.rpartition(".")[2]
        entries = "".join(f"{name}: {_plain(item, shape.value)}," for name, item in sorted((value or {}).items()))
        return f"map[{_KEYS.get(shape.key.go, key)}]{_type_name(shape.value)}{{{entries}}}"
    if isinstance(shape, Struct):
        text = generated_string(value if field.pointer else value or {}, shape)
        if not field.pointer:
            return text.removeprefix("&")
        package = shape.name.rpartition(".")[0]
        alias = "" if package == struct.name.rpartition(".")[0] else _IMPORTED.get(package, "")
        return text.replace(shape.type_name, alias + shape.type_name, 1)
    if field.pointer and isinstance(shape, Scalar):
        return "nil" if value is None else f"*{_plain(value, shape)}"
    return _plain(value, shape, pointer=field.pointer)


def _list(value: Any, shape: List) -> str:
    element = shape.element
    if isinstance(element, Scalar):
        return f"[{' '.join(_plain(item, element) for item in value or ())}]"
    items = "".join(f"{_item(item, element)}," for item in value or ())
    return f"[]{_type_name(element)}{{{items}}}"


def _item(value: Any, shape: Shape) -> str:
    if isinstance(shape, Struct):
        return _STRINGERS.get(shape.type_name, generated_string)(value, shape).removeprefix("&")
    return _plain(value, shape)


def _type_name(shape: Shape) -> str:
    return shape.type_name if isinstance(shape, Struct) else shape.go.rpartition(".")[2]


def _taint(taint: Obj, _: Struct) -> str:
    """Print a taint of a device as its own String method does: `key=value:effect`."""
    value, effect = taint.get("value", ""), taint.get("effect", "")
    colon = ":" if effect or value else ""
    return f"{taint.get('key', '')}{f'={value}' if value else ''}{colon}{effect}"


_STRINGERS = {"DeviceTaint": _taint}


# --- %v


def _plain(value: Any, shape: Shape, *, pointer: bool = False) -> str:
    """Print a value as `fmt` does with %v when it is part of another one."""
    if pointer:
        return _plain_pointer(value, shape)
    if isinstance(shape, Struct):
        obj = value or {}
        return f"{{{' '.join(_plain(obj.get(f.json), f.type, pointer=f.pointer) for f in shape.declared)}}}"
    if isinstance(shape, List):
        return f"[{' '.join(_plain(item, shape.element) for item in value or ())}]"
    if isinstance(shape, Custom) and shape.name == "Quantity":
        return _plain_quantity(value)
    if value is None:
        return {"bool": "false", "string": ""}.get(shape.kind, "0") if isinstance(shape, Scalar) else "<nil>"
    return go_scalar(value)


def _plain_pointer(value: Any, shape: Shape) -> str:
    """Print a pointer: what has a String method is asked, even if it is nil; of others there is the address."""
    if isinstance(shape, Struct):
        return generated_string(value, shape)
    if value is None:
        return "<nil>"
    return str(value) if isinstance(shape, Custom) else _ADDRESS


def _plain_quantity(value: Any) -> str:
    amount = quantity.parse(str(value)) if value is not None else quantity.Quantity(0, 0, "")
    integer = "{0 0}" if amount.big else f"{{{amount.value} {amount.exponent}}}"
    decimal = f"{{{_ADDRESS if amount.big else '<nil>'}}}"
    return f"{{{integer} {decimal} {amount.text} {amount.format}}}"
