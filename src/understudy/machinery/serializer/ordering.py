"""Fields in the order in which Go's types declare them, and map keys sorted: the order of an answer's bytes.

Decoded objects are in order already; fields that defaulting and strategies set come last until this puts them in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from operator import is_
from typing import Any

from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.typeinfo.go_types import List, Map, Shape, Struct
from understudy.machinery.types import Obj

Order = Callable[[Any], Any]


def in_field_order(obj: Obj, struct: Struct) -> Obj:
    """Return `obj` with its fields in order: itself if they are. It is never edited."""
    ordered: Obj = _struct_order(struct)(obj)
    return ordered


def in_key_order(value: Any) -> Any:
    """Return a JSON value with the fields of its objects sorted, as those without a Go type are encoded."""
    if isinstance(value, dict):
        return keep_empty_fields(value, {name: in_key_order(value[name]) for name in sorted(value)})
    return [in_key_order(item) for item in value] if isinstance(value, list) else value


@cache
def _struct_order(struct: Struct) -> Order:
    """Return the function that puts objects of a struct in order. It is compiled when the first object comes: structs
    refer to each other in circles."""

    @lru_cache(4096)
    def plan(keys: tuple[str, ...]) -> tuple[bool, tuple[str, ...], tuple[tuple[str, Order], ...]]:
        """Return for these field names whether they are in order, the right order, and the fields to look into."""
        declared = tuple(name for name in struct.fields if name in keys)
        names = declared + tuple(name for name in keys if name not in struct.fields)
        nested = _nested_orders(struct)
        return names == keys, names, tuple((name, nested[name]) for name in keys if name in nested)

    def order(value: Any) -> Any:
        if not value:
            return value
        in_place, names, parts = plan(tuple(value))
        changed = (
            {name: new for name, order_part in parts if (new := order_part(value[name])) is not value[name]}
            if parts
            else {}
        )
        if in_place and not changed:
            return value
        return keep_empty_fields(value, {name: changed.get(name, value[name]) for name in names})

    return order


@cache
def _nested_orders(struct: Struct) -> dict[str, Order]:
    """Return the functions for the fields of a struct that have an order, by name."""
    orders = {name: _order_of(field.type) for name, field in struct.fields.items()}
    return {name: order for name, order in orders.items() if order is not None}


def _order_of(shape: Shape) -> Order | None:
    """Return the function that puts values of a shape in order, or None if they have no order."""
    if isinstance(shape, Struct):
        return _struct_order(shape)
    if isinstance(shape, List):
        inner = _order_of(shape.element)
        return inner and _list_order(inner)
    return _map_order(_order_of(shape.value)) if isinstance(shape, Map) else None


def _list_order(inner: Order) -> Order:
    def order(value: Any) -> Any:
        if not value:
            return value
        items = [inner(item) for item in value]
        return value if all(map(is_, items, value)) else items

    return order


def _map_order(inner: Order | None) -> Order:
    def order(value: Any) -> Any:
        if not value or (len(value) == 1 and not inner):
            return value
        names = sorted(value)
        changed = {name: new for name in names if (new := inner(value[name])) is not value[name]} if inner else {}
        if not changed and names == list(value):
            return value
        return {name: changed.get(name, value[name]) for name in names}

    return order
