"""What an expression may name: functions with their overloads, variables, types and macros of one environment.

Functions are declared in the library modules as text, one overload a line, and read once:

    startsWith
        starts_with_string: string.(string) -> bool

A type before the dot makes the overload a method. A capital letter alone is a type parameter. Order counts: the
first overload that fits decides the result type, and messages speak of functions, never of overloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from understudy.admission.cel import types
from understudy.admission.cel.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature; for a method the target is the first of `args`."""

    id: str
    args: tuple[Type, ...]
    result: Type
    method: bool
    params: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function or operator by name, all libraries' overloads together in the order they were added."""

    name: str
    overloads: tuple[Overload, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """Everything the checker looks names up in."""

    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    """Variables and, as values of type `type(…)`, the names of types."""
    fields: Mapping[str, Mapping[str, Type]]
    """The message types that may be selected from or constructed, with their fields."""


def read_functions(texts: Iterable[str]) -> dict[str, Function]:
    """Merge declarations in order; overloads of a function named twice are appended."""
    overloads: dict[str, dict[str, Overload]] = {}
    for text in texts:
        name = ""
        for line in text.splitlines():
            if not line.strip():
                continue
            if not line.startswith(" "):
                name = line.strip()
            else:
                id_, signature = line.strip().split(": ", 1)
                overloads.setdefault(name, {}).setdefault(id_, _read_overload(id_, signature))
    return {name: Function(name, tuple(group.values())) for name, group in overloads.items()}


def _read_overload(id_: str, signature: str) -> Overload:
    left, result = signature.split(" -> ")
    method = not left.startswith("(")
    target, rest = left.split(".(", 1) if method else ("", left[1:])
    args = [target] if method else []
    args += _split(rest[:-1])
    parsed = tuple(read_type(arg) for arg in args)
    params: dict[str, Type] = {}
    for type_ in parsed:
        _collect_params(type_, params)
    end = read_type(result)
    _collect_params(end, params)
    return Overload(id_, parsed, end, method, tuple(params.values()))


def _collect_params(type_: Type, into: dict[str, Type]) -> None:
    if type_.kind == "param":
        into[type_.name] = type_
    for param in type_.params:
        _collect_params(param, into)


def _split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text.strip() else []


# Types of the libraries that hide their insides (no field selection), by name; all other dotted names are messages.
_OPAQUE = frozenset(("net.IP", "net.CIDR"))


@cache
def read_type(text: str) -> Type:
    """A type from its notation: `map(string, list(A))`, `optional_type(V)`, `kubernetes.Quantity`."""
    if simple := types.SIMPLE.get(text):
        return simple
    if re.fullmatch("[A-Z]", text):
        return types.type_param(text)
    match = re.fullmatch(r"(\w+)\((.*)\)", text)
    if match is None:
        return types.opaque(text) if text in _OPAQUE else types.struct(text)
    params = [read_type(part) for part in _split(match[2])]
    match match[1]:
        case "list":
            return types.list_of(params[0])
        case "map":
            return types.map_of(params[0], params[1])
        case "type":
            return types.type_of(params[0])
        case "optional_type":
            return types.optional_of(params[0])
    raise ValueError(f"unknown type {text!r}")
