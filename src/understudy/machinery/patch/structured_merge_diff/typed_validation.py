"""Validation of an applied configuration against its schema: declared fields, value types, unique list elements.

The texts are those of structured-merge-diff (typed/validate.go), with the Go values that it prints.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang import fmt
from understudy.machinery.golang.text import go_quote, go_scalar
from understudy.machinery.patch.structured_merge_diff.field_set import path_element_text
from understudy.machinery.patch.structured_merge_diff.typed import (
    AtomicList,
    DeducedType,
    InvalidValue,
    ListType,
    MapType,
    ScalarType,
    Type,
    wrong_type,
)
from understudy.machinery.types import NamedTuple


class GoValue(NamedTuple):
    """A Go value that no schema has a place for, as %v, %#v and %T print it."""

    printed: str
    syntax: str
    type_name: str

    def __str__(self) -> str:
        return self.printed


_FITS = {
    "string": lambda value: isinstance(value, str),
    "numeric": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "untyped": lambda value: not isinstance(value, dict | list | GoValue),
}


def validate(kind: Type, value: Any, *, allows_duplicates: bool = False) -> None:
    """Raise InvalidValue with all errors of a value. Sets and list maps may have duplicates if that is allowed."""
    validation = _Validation(allows_duplicates)
    validation.check(kind, value, ())
    if not validation.errors:
        return
    validation.errors = []
    validation.check(kind, _in_order(value), ())
    if len(validation.errors) == 1:
        raise InvalidValue(validation.errors[0])
    raise InvalidValue("\n  ".join(["errors:", *validation.errors]))


def _in_order(value: Any) -> Any:
    """Return a value with its fields in the order of their names, in which errors are told."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


_Path = tuple[Any, ...]  # (the path of what it is in, a field or an element in brackets), () for the value itself


class _Validation:
    """Collects the errors of a value."""

    def __init__(self, allows_duplicates: bool) -> None:
        self.errors: list[str] = []
        self._allows_duplicates = allows_duplicates

    def check(self, kind: Type, value: Any, path: _Path) -> None:
        """Collect the errors of a value at `path`."""
        if value is None:
            return
        if isinstance(kind, ScalarType):
            if not _FITS[kind.kind](value):
                self._add(path, _scalar_error(kind.kind, value))
            return
        if isinstance(kind, DeducedType) and isinstance(value, dict):
            kind = kind.map
        if isinstance(kind, MapType):
            if isinstance(value, dict):
                self._check_map(kind, value, path)
            else:
                self._add(path, str(wrong_type("map", value)))
        elif isinstance(kind, ListType | AtomicList):
            if isinstance(value, list):
                self._check_list(kind, value, path)
            else:
                self._add(path, str(wrong_type("list", value)))

    def _check_map(self, kind: MapType, value: dict[str, Any], path: _Path) -> None:
        for key, item in value.items():
            child = kind.fields.get(key) or kind.element
            if child is None:
                self._add((path, f".{key}"), "field not declared in schema")
                return
            self.check(child, item, (path, f".{key}"))

    def _check_list(self, kind: ListType | AtomicList, value: list[Any], path: _Path) -> None:
        seen: set[str] = set()
        for index, item in enumerate(value):
            element = f"[{index}]"
            if isinstance(kind, ListType):
                try:
                    name = kind.path_element(item)
                except InvalidValue as error:
                    self._add(path, f"element {index}: {error}")
                    return
                element = path_element_text(name)
                if name in seen and not self._allows_duplicates:
                    self._add(path, f"duplicate entries for key {element}")
                seen.add(name)
            self.check(kind.element, item, (path, element))

    def _add(self, path: _Path, problem: str) -> None:
        text = ""
        while path:
            path, last = path
            text = last + text
        self.errors.append(f"{text}: {problem}" if text else problem)


def _scalar_error(kind: str, value: Any) -> str:
    if kind == "numeric":
        name = value.type_name if isinstance(value, GoValue) else fmt.type_name(value)
        return f"expected numeric (int or float), got {name}"
    if kind == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    expected = "boolean" if kind == "boolean" else "any scalar"
    return str(wrong_type(expected, value))


def _go_syntax(value: Any) -> str:
    """Return a decoded value as %#v prints it."""
    if isinstance(value, dict):
        return (
            f"map[string]interface {{}}{{{', '.join(f'{go_quote(k)}:{_go_syntax(value[k])}' for k in sorted(value))}}}"
        )
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if isinstance(value, GoValue):
        return value.syntax
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return go_quote(value)
    return go_scalar(value)
