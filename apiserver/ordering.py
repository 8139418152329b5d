"""Fields in the order in which Go's types declare them, and keys of maps sorted: the order of an answer's bytes.

What was decoded is in order; what defaulting and strategies set comes after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from understudy.apiserver.canonical import as_sparse_as
from understudy.apiserver.schema import List, Map, Shape, Struct
from understudy.apiserver.types import Obj

Order = Callable[[Any], Any]


def in_order(obj: Obj, struct: Struct) -> Obj:
    """`obj` itself where nothing of it is out of order. It stays as it is."""
    ordered: Obj = _of_struct(struct)(obj)
    return ordered


@cache
def _of_struct(struct: Struct) -> Order:
    nested: dict[str, Order] = {}

    def order(value: Any) -> Any:
        if not value or (len(value) == 1 and not nested):
            return value
        changed = {}
        for name, item in value.items():
            if name in nested and (new := nested[name](item)) is not item:
                changed[name] = new
        keys = tuple(value)
        names = _declared(struct, keys)
        if names == keys and not changed:
            return value
        return as_sparse_as(value, {name: changed.get(name, value[name]) for name in names})

    for field in struct.fields.values():
        if (inner := _of(field.type)) is not None:
            nested[field.json] = inner
    return order


@lru_cache(65536)
def _declared(struct: Struct, keys: tuple[str, ...]) -> tuple[str, ...]:
    known = tuple(name for name in struct.fields if name in keys)
    return known + tuple(name for name in keys if name not in struct.fields)


def _of(shape: Shape) -> Order | None:
    """None for what has nothing to put in order."""
    if isinstance(shape, Struct):
        return lambda value: _of_struct(shape)(value)  # which may hold itself
    if isinstance(shape, List):
        inner = _of(shape.element)
        return inner and _of_list(inner)
    return _of_map(_of(shape.value)) if isinstance(shape, Map) else None


def _of_list(inner: Order) -> Order:
    def order(value: Any) -> Any:
        if not value:
            return value
        items = [inner(item) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value

    return order


def _of_map(inner: Order | None) -> Order:
    def order(value: Any) -> Any:
        if not value:
            return value
        names = sorted(value)
        changed = {name: new for name in names if (new := inner(value[name])) is not value[name]} if inner else {}
        if not changed and names == list(value):
            return value
        return {name: changed.get(name, value[name]) for name in names}

    return order
