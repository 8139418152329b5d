"""Whether an applied configuration fits its schema: every field is declared, every value of its type, and the elements
of a list can be told apart. Texts are those of structured-merge-diff, with the Go values that they print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.machinery.golang import fmt
from understudy.machinery.golang.text import go_quote, go_scalar
from understudy.machinery.patch.structured_merge_diff.field_set import path_element_text
from understudy.machinery.patch.structured_merge_diff.typed import (
    AtomicList,
    InvalidValue,
    ListType,
    MapType,
    ScalarType,
    Type,
)

_FITS = {
    "string": lambda value: isinstance(value, str),
    "numeric": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "untyped": lambda value: not isinstance(value, dict | list),
}


def validate(kind: Type, value: Any) -> None:
    """Raises InvalidValue with all that is wrong."""
    found = list(_errors(kind, value, ""))
    if len(found) == 1:
        raise InvalidValue(found[0])
    if found:
        raise InvalidValue("\n  ".join(["errors:", *found]))


def _errors(kind: Type, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    prefix = f"{path}: " if path else ""
    if isinstance(kind, ScalarType):
        if not _FITS[kind.kind](value):
            yield prefix + _not_of(kind.kind, value)
    elif isinstance(kind, MapType):
        if isinstance(value, dict):
            yield from _map_errors(kind, value, path)
        else:
            yield f"{prefix}expected map, got {_printed(value)}"
    elif isinstance(kind, ListType | AtomicList):
        if isinstance(value, list):
            yield from _list_errors(kind, value, path, prefix)
        else:
            yield f"{prefix}expected list, got {_printed(value)}"


def _map_errors(kind: MapType, value: dict[str, Any], path: str) -> Iterator[str]:
    for key, item in value.items():
        here = f"{path}.{key}"
        child = kind.fields.get(key) or kind.element
        if child is None:
            yield f"{here}: field not declared in schema"
            return
        yield from _errors(child, item, here)


def _list_errors(kind: ListType | AtomicList, value: list[Any], path: str, prefix: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        here = f"[{index}]"
        if isinstance(kind, ListType):
            try:
                name = kind.name_of(item)
            except InvalidValue as why:
                yield f"{prefix}element {index}: {why}"
                return
            here = path_element_text(name)
            if name in seen:
                yield f"{prefix}duplicate entries for key {here}"
            seen.add(name)
        yield from _errors(kind.element, item, path + here)


def _not_of(kind: str, value: Any) -> str:
    if kind == "numeric":
        return f"expected numeric (int or float), got {fmt.type_name(value)}"
    if kind == "string":
        return f"expected string, got &value.valueUnstructured{{Value:{_as_go(value)}}}"
    what = "boolean" if kind == "boolean" else "any scalar"
    return f"expected {what}, got {_printed(value)}"


def _printed(value: Any) -> str:
    """%v of the library's value."""
    return f"&{{{fmt.print_value(value)}}}"


def _as_go(value: Any) -> str:
    """%#v of a decoded value."""
    if isinstance(value, dict):
        return f"map[string]interface {{}}{{{', '.join(f'{go_quote(k)}:{_as_go(value[k])}' for k in sorted(value))}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_as_go, value))}}}"
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return go_quote(value)
    return go_scalar(value)
