"""The set of fields that an object has (`TypedValue.ToFieldSet` of structured-merge-diff, typed/tofieldset.go)."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.structured_merge_diff.field_set import LEAF, Set, is_member
from understudy.machinery.patch.structured_merge_diff.typed import (
    DeducedType,
    ListType,
    MapType,
    Node,
    Type,
)


def to_field_set(kind: Type, value: Any) -> Set:
    """Return the set of fields that a whole object has. Raises InvalidValue.

    Structs and lists count by what is in them, and themselves only as null or `{}`; the entries of a map and the
    elements of a list count themselves.
    """
    return _fields_below(kind, value) or {}


def _fields_below(kind: Type, value: Any) -> Node:
    if isinstance(kind, ListType):
        return _list_fields(kind, value or [])
    if isinstance(kind, DeducedType):
        return _map_fields(kind.map, value) if isinstance(value, dict) else LEAF
    if not isinstance(kind, MapType) or kind.atomic:
        return LEAF
    return _map_fields(kind, value or {})


def _map_fields(kind: MapType, value: dict[str, Any]) -> Node:
    out: Set = {}
    for key, item in value.items():
        name, child = kind.field_of(key)
        node = LEAF if child.atomic else _fields_below(child, item)
        if item is None or item == {} or key not in kind.fields:
            node = _as_member(node)
        if node is not None:
            out[name] = node
    return out or None


def _list_fields(kind: ListType, value: list[Any]) -> Node:
    out: Set = {}
    for name, items in kind.by_path_element(value).items():
        out[name] = _as_member(_fields_below(kind.element, items[0])) if len(items) == 1 else LEAF
    return out or None


def _as_member(node: Node) -> Set:
    """Return a node whose path is a member of the set."""
    if node is None:
        return LEAF
    return node if is_member(node) else {".": LEAF, **node}


def ensure_named_fields_are_members(kind: Type | None, fields: Set) -> Set:
    """Return `fields`, and each field of a struct that longer paths in it lead through (upstream:
    `EnsureNamedFieldsAreMembers`)."""
    out = {}
    for name, node in fields.items():
        if not node or name == ".":
            out[name] = node
            continue
        named = isinstance(kind, MapType) and name.startswith("f:") and name[2:] in kind.fields
        deeper = ensure_named_fields_are_members(_type_below(kind, name), node)
        out[name] = _as_member(deeper) if named else deeper
    return out


def _type_below(kind: Type | None, name: str) -> Type | None:
    if isinstance(kind, DeducedType):
        kind = kind.map
    if isinstance(kind, MapType) and name.startswith("f:"):
        return kind.type_of(name[2:])
    return kind.element if isinstance(kind, ListType) and name.startswith("k:") else None
