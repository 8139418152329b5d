"""The declarations of an environment: functions with their overloads, variables and message types.

Functions are declared in `library/declarations.txt`, one overload on a line, and read once:

    [standard]
    startsWith
        starts_with_string: string.(string) -> bool

A type before the dot makes the overload a method. A single capital letter is a type parameter. The order matters: the
first overload that accepts the arguments decides the result type. Messages name functions, never overloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path

from understudy.cel import types
from understudy.cel.parser.macros import Macro, MacroKey
from understudy.cel.types import Type
from understudy.machinery.types import dataclass

_DECLARATIONS = Path(__file__).parents[1] / "library" / "declarations.txt"
_Signature = tuple[str, str]  # the library of an overload, and its notation


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function; for a method the target is the first of `args`.

    `params` are the type parameters that occur in it, `library` is the name of the library that declares it.
    """

    id: str
    library: str
    args: tuple[Type, ...]
    result: Type
    method: bool
    params: tuple[Type, ...]


class Function:
    """A function or operator by name, with the overloads of all libraries in the order they were added."""

    def __init__(self, name: str, signatures: Mapping[str, _Signature]) -> None:
        self.name = name
        self._signatures = signatures

    @cached_property
    def overloads(self) -> tuple[Overload, ...]:
        """Return the overloads, which are read when they are first asked for: expressions use few of some hundred."""
        return tuple(_read_overload(id_, *signature) for id_, signature in self._signatures.items())


@dataclass(frozen=True, slots=True, eq=False)
class Declarations:
    """The names that the parser and the checker know."""

    macros: Mapping[MacroKey, Macro]
    functions: Mapping[str, Function]
    variables: Mapping[str, Type]
    """The types of variables; names of types are variables of type `type(…)`."""
    fields: Mapping[str, Mapping[str, Type]]
    """The types of the fields of each message type that may be selected from or constructed."""

    def variable(self, name: str) -> Type | None:
        """Return the type of a variable or of the name of a type, None if there is none."""
        return self.variables.get(name)

    def fields_of(self, message: str) -> Mapping[str, Type] | None:
        """Return the types of a message's fields, None if there is no such message."""
        return self.fields.get(message)


def read_functions(libraries: Iterable[str]) -> dict[str, Function]:
    """Return the functions of libraries, by name; overloads of a function that several declare are appended."""
    signatures: dict[str, dict[str, _Signature]] = {}
    for library in libraries:
        group: dict[str, _Signature] = {}
        for line in _declared()[library]:
            if line.startswith(" "):
                id_, _, text = line.strip().partition(": ")
                group.setdefault(id_, (library, text))
            else:
                group = signatures.setdefault(line, {})
    return {name: Function(name, group) for name, group in signatures.items()}


@cache
def _declared() -> Mapping[str, list[str]]:
    """Return the lines that declare the functions of each library."""
    lines: dict[str, list[str]] = {}
    for line in _DECLARATIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            own = lines[line[1:-1]] = []
        elif line:
            own.append(line)
    return lines


def _read_overload(id_: str, library: str, signature: str) -> Overload:
    """Return an overload from its notation, such as `string.(string) -> bool`."""
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
    return Overload(id_, library, parsed, end, method, tuple(params.values()))


def _collect_params(type_: Type, into: dict[str, Type]) -> None:
    if type_.kind == "param":
        into[type_.name] = type_
    for param in type_.params:
        _collect_params(param, into)


def _split(text: str) -> list[str]:
    """Split a text at the commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text.strip() else []


# The types of libraries that have no fields; all other dotted names are message types.
_OPAQUE = frozenset(("net.IP", "net.CIDR"))


@cache
def read_type(text: str) -> Type:
    """Return a type from its notation: `map(string, list(A))`, `optional_type(V)`, `kubernetes.Quantity`.

    Raises ValueError for an unknown type with parameters.
    """
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
