"""What server-side apply does with values: the fields that one has, one value over another, one without some fields.

All three walk a value with its type, share what they do not change, and write null where nothing is left of what they
take from, as structured-merge-diff does.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.apply.field_set import LEAF, Set, is_member
from understudy.machinery.patch.apply.typed import (
    UNTYPED,
    AtomicList,
    DeducedType,
    ListType,
    MapType,
    Node,
    ScalarType,
    Type,
)

_ABSENT: Any = object()


def to_field_set(kind: Type, value: Any) -> Set:
    """The set of fields that a whole object has. Structs and lists have none of their own, but for null and `{}`; the
    entries of a map and the elements of a list count. Raises InvalidValue."""
    return _node_of(kind, value) or {}


def _node_of(kind: Type, value: Any) -> Node:
    if isinstance(kind, ListType):
        return _elements_of(kind, value or [])
    if isinstance(kind, DeducedType):
        return _entries_of(MapType(element=kind), value) if isinstance(value, dict) else LEAF
    if not isinstance(kind, MapType) or kind.atomic:
        return LEAF
    return _entries_of(kind, value or {})


def _entries_of(kind: MapType, value: dict[str, Any]) -> Node:
    out: Set = {}
    for key, item in value.items():
        node = _node_of(kind.type_of(key), item)
        if item is None or item == {} or key not in kind.fields:
            node = _member(node)
        if node is not None:
            out["f:" + key] = node
    return out or None


def _elements_of(kind: ListType, value: list[Any]) -> Node:
    out: Set = {}
    for name, items in kind.by_name(value).items():
        out[name] = _member(_node_of(kind.element, items[0])) if len(items) == 1 else LEAF
    return out or None


def _member(node: Node) -> Set:
    if node is None:
        return LEAF
    return node if is_member(node) else {".": LEAF, **node}


def ensure_named_fields_are_members(kind: Type | None, fields: Set) -> Set:
    """`fields`, and each field of a struct that longer paths in it lead through."""
    out = {}
    for name, node in fields.items():
        if not node or name == ".":
            out[name] = node
            continue
        named = isinstance(kind, MapType) and name.startswith("f:") and name[2:] in kind.fields
        deeper = ensure_named_fields_are_members(_type_below(kind, name), node)
        out[name] = _member(deeper) if named else deeper
    return out


def _type_below(kind: Type | None, name: str) -> Type | None:
    if isinstance(kind, MapType) and name.startswith("f:"):
        return kind.type_of(name[2:])
    if isinstance(kind, ListType) and name.startswith("k:"):
        return kind.element
    return kind if isinstance(kind, DeducedType) else None


def merge(kind: Type, live: Any, applied: Any) -> Any:
    """`applied` over `live`. Raises InvalidValue."""
    if isinstance(kind, DeducedType) and isinstance(live, dict) and isinstance(applied, dict):
        kind = MapType(element=kind)
    if isinstance(kind, MapType) and not kind.atomic and (live or applied):
        return _merged_maps(kind, live or {}, applied or {})
    if isinstance(kind, ListType) and (live or applied):
        return _merged_lists(kind, live or [], applied or [])
    return applied


def _merged_maps(kind: MapType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    out = dict(live)
    for key, item in applied.items():
        before = live.get(key, _ABSENT)
        out[key] = item if before is _ABSENT else merge(kind.type_of(key), before, item)
    return out


def _merged_lists(kind: ListType, live: list[Any], applied: list[Any]) -> list[Any]:
    """The elements of both. Those applied come in their order; the others stay before what they stand before, as far
    as that order lets them."""
    names = [kind.name_of(item) for item in live]
    wanted = {kind.name_of(item): item for item in applied}
    before = {name: items[0] if len(items) == 1 else None for name, items in kind.by_name(live).items()}
    queue = list(wanted)
    shared = [name for name in queue if name in before]
    out: list[Any] = []
    done: set[str] = set()

    def take(name: str) -> None:
        item = wanted[name]
        out.append(merge(kind.element, before[name], item) if name in before else item)
        done.add(name)
        if shared and shared[0] == name:
            del shared[0]

    left = right = 0
    while left < len(names) or right < len(queue):
        if left < len(names):
            name = names[left]
            if right < len(queue) and name == queue[right]:
                take(name)
                left += 1
                right += 1
                continue
            if name not in wanted:
                out.append(live[left])
                left += 1
                continue
            if right < len(queue) and shared and shared[0] != name:
                left += 1  # applied too, but its turn comes later
                continue
            if name in done:
                left += 1
        if right < len(queue):
            take(queue[right])
            right += 1
    return out


def remove_items(kind: Type, value: Any, fields: Set) -> Any:
    """`value` without the fields in a set; null where nothing is left."""
    if isinstance(kind, DeducedType):
        kind = MapType(element=kind) if isinstance(value, dict) else UNTYPED
    if isinstance(kind, MapType) and not kind.atomic:
        return _map_without(kind, value, fields) if isinstance(value, dict) else None
    if isinstance(kind, ListType):
        return _list_without(kind, value, fields) if isinstance(value, list) else None
    return None if isinstance(kind, MapType | AtomicList) or not isinstance(kind, ScalarType) else value


def _map_without(kind: MapType, value: dict[str, Any], fields: Set) -> dict[str, Any] | None:
    out = {}
    for key, item in value.items():
        node = fields.get("f:" + key)
        if node is None:
            out[key] = item
        elif not is_member(node):
            out[key] = remove_items(kind.type_of(key), item, node)
    return out or None


def _list_without(kind: ListType, value: list[Any], fields: Set) -> list[Any] | None:
    out = []
    for item in value:
        node = fields.get(kind.name_of(item))
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove_items(kind.element, item, node))
    return out or None
