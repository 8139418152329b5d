"""Macros with two variables, an index or key and a value: `all(i, v, …)`, `transformMap(k, v, …)` and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from understudy.cel.errors import EvaluationError
from understudy.cel.library.shared_lists import GrowingMap
from understudy.cel.library.string_format import format_value
from understudy.cel.values import Value, map_key, map_keys


def _insert(entries: dict[Any, Value], key: Value, value: Value) -> dict[Any, Value]:
    """Return a map with one more entry. Raises `EvaluationError` if it has the key."""
    name = map_key(key)
    if name in entries:
        raise EvaluationError(f"insert failed: key {format_value(key)} already exists")
    if type(entries) is GrowingMap:
        entries[name] = value
        return entries
    return {**entries, name: value}


def _insert_all(entries: dict[Any, Value], more: dict[Any, Value]) -> dict[Any, Value]:
    for key, value in zip(map_keys(more), more.values(), strict=True):
        entries = _insert(entries, key, value)
    return entries


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert_all,
}
