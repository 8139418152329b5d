"""Removing a set of fields from an object (`TypedValue.RemoveItems` of structured-merge-diff, typed/remove.go)."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.structured_merge_diff.field_set import Set, is_member
from understudy.machinery.patch.structured_merge_diff.typed import (
    UNTYPED,
    AtomicList,
    DeducedType,
    ListType,
    MapType,
    ScalarType,
    Type,
)


def remove_items(kind: Type, value: Any, fields: Set) -> Any:
    """Return `value` without the fields in a set; null where nothing is left. Unchanged parts are shared."""
    if isinstance(kind, DeducedType):
        kind = kind.map if isinstance(value, dict) else UNTYPED
    if isinstance(kind, MapType) and not kind.atomic:
        return _remove_from_map(kind, value, fields) if isinstance(value, dict) else None
    if isinstance(kind, ListType):
        return _remove_from_list(kind, value, fields) if isinstance(value, list) else None
    return None if isinstance(kind, MapType | AtomicList) or not isinstance(kind, ScalarType) else value


def _remove_from_map(kind: MapType, value: dict[str, Any], fields: Set) -> dict[str, Any] | None:
    out = {}
    for key, item in value.items():
        node = fields.get("f:" + key)
        if node is None:
            out[key] = item
        elif not is_member(node):
            out[key] = remove_items(kind.type_of(key), item, node)
    return out or None


def _remove_from_list(kind: ListType, value: list[Any], fields: Set) -> list[Any] | None:
    out = []
    for item in value:
        node = fields.get(kind.path_element(item))
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove_items(kind.element, item, node))
    return out or None
