"""Changes the raw parts of objects, which keep the bytes that they were sent with (`runtime.RawExtension`)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from operator import is_not
from typing import Any

from understudy.machinery.golang.json_writer import Raw, with_source
from understudy.machinery.typeinfo.go_types import List, Map, Shape, Struct


def rewrite_raw(obj: Any, struct: Struct, spell: Callable[[Any], bytes]) -> Any:
    """Return an object with new bytes in its raw parts, made by `spell`. A patch rewrites all of them, changed or not.

    Parts without raw values are shared with the object, which stays as it is.
    """
    return change_raw(obj, struct, lambda raw: with_source(raw, spell(raw)))


def holds_raw(value: Any, shape: Shape) -> bool:
    """Report whether a value of a shape has anything in its raw parts."""
    if isinstance(shape, Struct):
        if isinstance(value, dict):
            for name in shape.raw_fields:
                if name in value and holds_raw(value[name], shape.raw_fields[name]):
                    return True
        return False
    if isinstance(shape, List):
        return isinstance(value, list) and any(holds_raw(item, shape.element) for item in value)
    if isinstance(shape, Map):
        return isinstance(value, dict) and any(holds_raw(item, shape.value) for item in value.values())
    return value is not None


def change_raw(value: Any, shape: Shape, change: Callable[[Raw], Any]) -> Any:
    """Return a value of a shape with its raw parts changed, or the value itself if there are none.

    Only fields that can hold a raw part are looked at (`Struct.raw_fields`).
    """
    if isinstance(shape, Struct):
        if isinstance(value, dict):
            for name, of in shape.raw_fields.items():
                item = value.get(name)
                if item is not None and (new := change_raw(item, of, change)) is not item:
                    value = copy(value)
                    value[name] = new
        return value
    if isinstance(value, Raw):
        return change(value)
    if isinstance(shape, List) and isinstance(value, list):
        items = [change_raw(item, shape.element, change) for item in value]
        return items if any(map(is_not, items, value)) else value
    if isinstance(shape, Map) and isinstance(value, dict):
        return {key: change_raw(item, shape.value, change) for key, item in value.items()}
    return value
