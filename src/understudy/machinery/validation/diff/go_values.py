"""Go values made of JSON: fields under their Go names, with pointers, and with nil distinct from empty."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from understudy.machinery import quantity
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Shape
from understudy.machinery.types import dataclass
from understudy.machinery.validation.dump import members

STRUCT, SLICE, MAP, POINTER, STRING, NUMBER, BOOL = "struct", "slice", "map", "pointer", "string", "number", "bool"
OPAQUE = "opaque"  # only its String method tells what is in it
COMPOSITE = frozenset((STRUCT, SLICE, MAP))


@dataclass(slots=True, eq=False)
class Value:
    """A value of the type that Go names `go`.

    `content` is None for nil. Otherwise it is {field: Value} for a struct, [Value] for a slice, {key: Value} for a map,
    the Value that a pointer points to, the text of an opaque value ("" for zero), or a str, bool or number. `keys` is
    the type of a map's keys. `same_as` stands for the value where its type has an Equal method.
    """

    kind: str
    go: str
    content: Any
    keys: str = ""
    same_as: Any = None

    @property
    def is_zero(self) -> bool:
        """Report whether the value is Go's zero value; an empty slice or map is not, as it is not nil."""
        if self.kind == STRUCT:
            return all(field.is_zero for field in self.content.values())
        return self.content is None if self.kind in (SLICE, MAP, POINTER) else not self.content

    @property
    def identity(self) -> Any:
        """Return a key, equal (`==`) for two values of the type if, and only if, a comparison finds no difference."""
        if self.same_as is not None:
            return self.same_as
        if self.content is None:
            return None
        if self.kind == POINTER:
            return (self.content.identity,)
        if self.kind == SLICE:
            return [item.identity for item in self.content]
        if self.kind == MAP:
            return {key: item.identity for key, item in self.content.items()}
        return [field.identity for field in self.content.values()] if self.kind == STRUCT else self.content

    @property
    def printed(self) -> str | None:
        """Return the text of the String method, None for a type that has none."""
        method = None if self.content is None else _STRING_METHODS.get(self.go)
        return None if method is None else method(self)


def value_of(value: Any, shape: Shape, *, pointer: bool = False) -> Value:
    """Make a value of JSON of that shape, or a pointer to it; None is nil, or zero where there is no nil."""
    if pointer:
        content = None if value is None else value_of(value, shape)
        return Value(POINTER, f"*{shape.go}", content, same_as=content and _pointed_to(content))
    if isinstance(shape, List):
        element, pointers = shape.element, shape.pointer
        items = None if value is None else [value_of(item, element, pointer=pointers) for item in value]
        return Value(SLICE, shape.go, items)
    if isinstance(shape, Map):
        entries = None if value is None else {key: value_of(item, shape.value) for key, item in value.items()}
        return Value(MAP, shape.go, entries, shape.key.go)
    if isinstance(shape, Scalar):
        return _scalar(value, shape)
    if isinstance(shape, Custom):
        return _CUSTOM.get(shape.name, _raw)(value, shape.go)
    fields = {field.go_name: value_of(item, field.type, pointer=field.pointer) for field, item in members(value, shape)}
    return Value(STRUCT, shape.go, fields)


def _pointed_to(content: Value) -> Any:
    """Return the value that stands for a pointer: times are compared through pointers, quantities are not."""
    return content.content["Time"].content if content.go == "v1.Time" else None


def _scalar(value: Any, shape: Scalar) -> Value:
    if shape.kind == "bool":
        return Value(BOOL, shape.go, bool(value))
    if shape.kind in ("string", "bytes", "interface"):
        return Value(STRING, shape.go, value or "")
    return Value(NUMBER, shape.go, value or 0)


def _string(go: str, text: str) -> Value:
    return Value(STRING, go, text)


def _number(go: str, number: int) -> Value:
    return Value(NUMBER, go, number)


def _quantity(value: Any, go: str) -> Value:
    amount = quantity.parse(str(value)) if value is not None else quantity.Quantity(0, 0, "")
    number, scale = (0, 0) if amount.big else (amount.value, amount.exponent)
    decimal = Value(OPAQUE, "inf.Dec", _decimal(amount)) if amount.big else None
    integer = {"value": _number("int64", number), "scale": _number("resource.Scale", scale)}
    fields = {
        "i": Value(STRUCT, "resource.int64Amount", integer),
        "d": Value(STRUCT, "resource.infDecAmount", {"Dec": Value(POINTER, "*inf.Dec", decimal)}),
        "s": _string("string", amount.text),
        "Format": _string("resource.Format", amount.format),
    }
    return Value(STRUCT, go, fields, same_as=amount)


def _decimal(amount: quantity.Quantity) -> str:
    """Print a big amount, which Go holds with nine digits behind the point."""
    billionths = amount.scaled(-9)
    whole, rest = divmod(abs(billionths), 10**9)
    return f"{'-' if billionths < 0 else ''}{whole}.{rest:09}"


def _int_or_string(value: Any, go: str) -> Value:
    is_text = isinstance(value, str)
    fields = {
        "Type": _number("intstr.Type", int(is_text)),
        "IntVal": _number("int32", 0 if is_text else value or 0),
        "StrVal": _string("string", value if is_text else ""),
    }
    return Value(STRUCT, go, fields)


def _time(value: Any, go: str) -> Value:
    at = datetime.fromisoformat(value).astimezone(UTC) if value else None
    text = f"{at:%Y-%m-%d %H:%M:%S} +0000 UTC" if at else ""
    return Value(STRUCT, go, {"Time": Value(OPAQUE, "time.Time", text, same_as=text)})


def _raw(value: Any, go: str) -> Value:
    """Make a value of raw JSON."""
    return _string(go, "" if value is None else encode(value).decode())


_CUSTOM: dict[str, Callable[[Any, str], Value]] = {
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
}


def _message_text(value: Value) -> str:
    """Print a protobuf message as its generated String method does."""
    fields = "".join(f"{name}:{_field_text(field)}," for name, field in value.content.items())
    return f"{value.go.partition('.')[2]}{{{fields}}}"


def _field_text(field: Value) -> str:
    if field.kind == MAP:
        entries = field.content or {}
        return f"{field.go}{{{''.join(f'{key}: {entries[key].content},' for key in sorted(entries))}}}"
    if field.kind == SLICE and field.go == "[]string":
        return f"[{' '.join(item.content for item in field.content or ())}]"
    if field.kind == SLICE:
        items = "".join(f"{_message_text(item)}," for item in field.content or ())
        return f"[]{field.go.partition('.')[2]}{{{items}}}"
    if field.kind == POINTER:
        nil = "<nil>" if field.go == "*v1.Time" else "nil"
        return nil if field.content is None else field.printed or f"*{field.content.content}"
    return field.printed or str(field.content)


def _embedded_meta_text(pointer: Value) -> str:
    """Print a type that embeds ObjectMeta, whose String method it inherits."""
    return f"&{_message_text(pointer.content.content['ObjectMeta'])}"


def _int_or_string_text(pointer: Value) -> str:
    fields = pointer.content.content
    return str(fields["StrVal" if fields["Type"].content else "IntVal"].content)


def _time_text(time: Value) -> str:
    return time.content["Time"].content or "0001-01-01 00:00:00 +0000 UTC"


# The String methods of the types that pods, volumes and claims are made of.
_STRING_METHODS: dict[str, Callable[[Value], str]] = {
    "core.ResourceName": lambda name: str(name.content),
    "resource.infDecAmount": lambda amount: str(amount.content["Dec"].content.content),
    "*resource.Quantity": lambda pointer: str(pointer.content.same_as),
    "*intstr.IntOrString": _int_or_string_text,
    "*v1.LabelSelector": lambda pointer: f"&{_message_text(pointer.content)}",
    "*core.PersistentVolumeClaimTemplate": _embedded_meta_text,
    "time.Time": lambda time: str(time.content),
    "v1.Time": _time_text,
    "*v1.Time": lambda pointer: _time_text(pointer.content),
}
