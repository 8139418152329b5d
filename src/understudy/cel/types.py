"""CEL's types, and the rules by which a value of one type may be used where another is expected.

A `Type` is immutable. A type has two texts, as in cel-go: `text` for the checker's messages (`any`, `null`,
`timestamp`; `FormatCELType`) and `declared_name` where the type of a result is named (`google.protobuf.Any`,
`null_type`). The rules are those of cel-go's `checker/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from understudy.machinery.types import Obj


class Type:
    """One type: `kind` is the first argument in the constructors below, and `name` distinguishes types of one kind.

    `nullable` marks the wrapper of a primitive type, and `generic` a type that holds type parameters.
    """

    __slots__ = ("declared_name", "generic", "kind", "name", "nullable", "params", "text")
    declared_name: str
    generic: bool
    text: str

    def __init__(
        self, kind: str, name: str, params: tuple[Type, ...] = (), *, text: str = "", nullable: bool = False
    ) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.nullable = nullable
        self.generic = kind == "param" or any(param.generic for param in params)
        own = f"wrapper({name})" if nullable else name
        if params:
            self.text = f"{name}({', '.join(param.text for param in params)})"
            self.declared_name = f"{name}({', '.join(param.declared_name for param in params)})"
        else:
            self.text = text or own
            self.declared_name = own

    def __repr__(self) -> str:
        return self.text


ANY: Final = Type("any", "google.protobuf.Any", text="any")
BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
DURATION: Final = Type("duration", "google.protobuf.Duration", text="duration")
DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "*error*", text="!error!")
INT: Final = Type("int", "int")
NULL: Final = Type("null", "null_type", text="null")
STRING: Final = Type("string", "string")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp", text="timestamp")
TYPE: Final = Type("type", "type")
UINT: Final = Type("uint", "uint")

SIMPLE: Final[Mapping[str, Type]] = {
    "any": ANY,
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "duration": DURATION,
    "dyn": DYN,
    "int": INT,
    "null": NULL,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "type": TYPE,
    "uint": UINT,
}


@lru_cache(4096)
def list_of(element: Type) -> Type:
    """Return the type of lists with elements of one type."""
    return Type("list", "list", (element,))


@lru_cache(4096)
def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps with keys and values of one type each."""
    return Type("map", "map", (key, value))


@lru_cache(4096)
def type_of(param: Type) -> Type:
    """Return the type of a type: `int` used as a value has the type `type(int)`."""
    return Type("type", "type", (param,))


@lru_cache(4096)
def optional_of(param: Type) -> Type:
    """Return the type of optional values."""
    return Type("opaque", "optional_type", (param,))


@lru_cache(4096)
def opaque(name: str, params: tuple[Type, ...] = ()) -> Type:
    """Return a type without fields, such as `net.IP`."""
    return Type("opaque", name, params)


@lru_cache(4096)
def struct(name: str) -> Type:
    """Return the type of the messages with a name."""
    return Type("struct", name)


@lru_cache(4096)
def type_param(name: str) -> Type:
    """Return a type parameter: `A` in a declaration, `_var3` after a call has instantiated it."""
    return Type("param", name)


@lru_cache(64)
def wrapper(of: Type) -> Type:
    """Return the nullable form of a primitive type, such as `google.protobuf.Int64Value`."""
    return Type(of.kind, of.name, nullable=True)


def is_dyn(type_: Type) -> bool:
    """Report whether a type is only known at run time (`isDyn`)."""
    return type_.kind in ("dyn", "any")


def is_dyn_or_error(type_: Type) -> bool:
    """Report whether a type is only known at run time or unknown because of an error (`isDynOrError`)."""
    return type_.kind in ("dyn", "any", "error")


def unwrap_optional(type_: Type) -> tuple[Type, bool]:
    """Return (the type inside, True) for an optional type, else (the type, False)."""
    if type_.kind == "opaque" and type_.name == "optional_type":
        return type_.params[0], True
    return type_, False


def is_exact_type(one: Type, other: Type) -> bool:
    """Report whether two types are identical, down to the names of type parameters (`IsExactType`).

    A wrapper counts as the type that it wraps.
    """
    return one is other or (
        one.kind == other.kind
        and one.name == other.name
        and len(one.params) == len(other.params)
        and all(map(is_exact_type, one.params, other.params))
    )


def is_equivalent_type(one: Type, other: Type) -> bool:
    """Report whether two types are identical except for the names of type parameters (`IsEquivalentType`)."""
    return one is other or (
        one.kind == other.kind
        and (one.kind == "param" or one.name == other.name)
        and len(one.params) == len(other.params)
        and all(map(is_equivalent_type, one.params, other.params))
    )


Bindings = dict[str, Type]
"""The types that free type parameters stand for, by the parameter's text (`mapping` in cel-go)."""

_NULLABLE_KINDS = frozenset(("opaque", "struct", "any", "duration", "timestamp"))


def unify(bindings: Bindings, sources: Sequence[Type], targets: Sequence[Type]) -> Bindings | None:
    """Return the bindings with which every source is assignable to its target, or None (`isAssignableList`).

    The given bindings are not changed.
    """
    if len(sources) != len(targets):
        return None
    if not any(t.generic for t in sources) and not any(t.generic for t in targets):
        return bindings if all(_is_assignable(bindings, s, t) for s, t in zip(sources, targets, strict=True)) else None
    candidate = dict(bindings)
    return candidate if all(_is_assignable(candidate, s, t) for s, t in zip(sources, targets, strict=True)) else None


def _is_assignable(bindings: Bindings, source: Type, target: Type) -> bool:
    if target.kind == "param":
        valid, known = _is_valid_type_substitution(bindings, source, target)
        if valid or known:
            return valid
    if source.kind == "param":
        return _is_valid_type_substitution(bindings, target, source)[0]
    if is_dyn_or_error(source) or is_dyn_or_error(target):
        return True
    if source.kind == "null" or target.kind == "null":
        other = target if source.kind == "null" else source
        return other.kind in _NULLABLE_KINDS or other.nullable or other.kind == "null"
    if source.kind == "type":
        return target.kind == "type"
    if source.kind != target.kind or source.name != target.name:
        return False
    return len(source.params) == len(target.params) and all(
        _is_assignable(bindings, s, t) for s, t in zip(source.params, target.params, strict=True)
    )


def _is_valid_type_substitution(bindings: Bindings, type_: Type, var: Type) -> tuple[bool, bool]:
    """Return (whether `var` may stand for `type_`, whether it was bound before), and bind it if so."""
    if type_.kind == "param" and is_exact_type(type_, var):
        return True, True
    bound = bindings.get(var.text)
    if bound is None:
        if _not_referenced_in(bindings, var, type_):
            bindings[var.text] = type_
            return True, False
        return False, False
    if type_.kind == bound.kind and is_exact_type(type_, bound):
        return True, True
    if _is_assignable(bindings, type_, bound):
        general = most_general(type_, bound)
        if _not_referenced_in(bindings, var, general):
            bindings[var.text] = general
        return True, True
    return False, True


def _not_referenced_in(bindings: Bindings, var: Type, within: Type) -> bool:
    """Report whether a type parameter does not occur in a type, bindings included; else types would be infinite."""
    if is_exact_type(var, within):
        return False
    if within.kind == "param":
        bound = bindings.get(within.text)
        return bound is None or _not_referenced_in(bindings, var, bound)
    return all(_not_referenced_in(bindings, var, param) for param in within.params)


def most_general(one: Type, other: Type) -> Type:
    """Return the less specific of two types that unify (`mostGeneral`)."""
    return one if _is_equal_or_less_specific(one, other) else other


def _is_equal_or_less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in ("opaque", "list", "map"):
        return (
            one.name == other.name
            and len(one.params) == len(other.params)
            and all(map(_is_equal_or_less_specific, one.params, other.params))
        )
    return is_exact_type(one, other)


def substitute(bindings: Bindings, type_: Type, type_param_to_dyn: bool = False) -> Type:
    """Return the type with bound type parameters replaced; the free ones become `dyn` if `type_param_to_dyn` is set."""
    if not type_.generic:
        return type_
    bound = bindings.get(type_.text)
    if bound is not None:
        return substitute(bindings, bound, type_param_to_dyn)
    if type_.kind == "param":
        return DYN if type_param_to_dyn else type_
    params = tuple(substitute(bindings, param, type_param_to_dyn) for param in type_.params)
    match type_.kind:
        case "list":
            return list_of(params[0])
        case "map":
            return map_of(params[0], params[1])
        case "type":
            return type_of(params[0])
    return optional_of(params[0]) if type_.name == "optional_type" else opaque(type_.name, params)


_STRING: Obj = {"type": "string"}


_METADATA: Obj = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}


def with_type_and_object_meta(schema: Obj) -> Obj:
    """Return the schema of a whole object, in which kind, apiVersion and the names in metadata are declared."""
    properties = schema.get("properties") or {}
    types = {name: (properties.get(name) or {}).get("type") for name in ("kind", "apiVersion", "metadata")}
    names = (properties.get("metadata") or {}).get("properties") or {}
    if types == {"kind": "string", "apiVersion": "string", "metadata": "object"} and all(
        (names.get(name) or {}).get("type") == "string" for name in ("name", "generateName")
    ):
        return schema
    whole = {**properties, "kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
    return {**schema, "properties": whole}
