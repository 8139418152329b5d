"""Fields in the order in which Go's types declare them, and keys of maps sorted: the order of an answer's bytes.

What was decoded is in order; what defaulting and strategies set comes after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from operator import is_
from typing import Any

from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.typeinfo.schema import List, Map, Shape, Struct
from understudy.machinery.types import Obj

Order = Callable[[Any], Any]


def in_field_order(obj: Obj, struct: Struct) -> Obj:
    """`obj` itself where nothing of it is out of order. It stays as it is."""
    ordered: Obj = _of_struct(struct)(obj)
    return ordered


@cache
def _of_struct(struct: Struct) -> Order:
    nested: dict[str, Order] = {}

    @lru_cache(4096)
    def plan(keys: tuple[str, ...]) -> tuple[bool, tuple[str, ...], tuple[tuple[str, Order], ...]]:
        """Of what has these fields: whether they are in order, their order, and those to look into."""
        known = tuple(name for name in struct.fields if name in keys)
        names = known + tuple(name for name in keys if name not in struct.fields)
        return names == keys, names, tuple((name, nested[name]) for name in keys if name in nested)

    def order(value: Any) -> Any:
        if not value:
            return value
        in_place, names, parts = plan(tuple(value))
        changed = {name: new for name, of in parts if (new := of(value[name])) is not value[name]} if parts else {}
        if in_place and not changed:
            return value
        return keep_empty_fields(value, {name: changed.get(name, value[name]) for name in names})

    for field in struct.fields.values():
        if (inner := _of(field.type)) is not None:
            nested[field.json] = inner
    return order


def _of(shape: Shape) -> Order | None:
    """None for what has nothing to put in order."""
    if isinstance(shape, Struct):
        return _lazily(shape)
    if isinstance(shape, List):
        inner = _of(shape.element)
        return inner and _of_list(inner)
    return _of_map(_of(shape.value)) if isinstance(shape, Map) else None


def _lazily(struct: Struct) -> Order:
    """Structs refer to each other in circles: what puts one in order is made when its first value comes."""
    made: Order | None = None

    def order(value: Any) -> Any:
        nonlocal made
        if made is None:
            made = _of_struct(struct)
        return made(value)

    return order


def _of_list(inner: Order) -> Order:
    def order(value: Any) -> Any:
        if not value:
            return value
        items = [inner(item) for item in value]
        return value if all(map(is_, items, value)) else items

    return order


def _of_map(inner: Order | None) -> Order:
    def order(value: Any) -> Any:
        if not value or (len(value) == 1 and not inner):
            return value
        names = sorted(value)
        changed = {name: new for name in names if (new := inner(value[name])) is not value[name]} if inner else {}
        if not changed and names == list(value):
            return value
        return {name: changed.get(name, value[name]) for name in names}

    return order
