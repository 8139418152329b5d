"""Lists that a request sends empty where null is stored.

Go tells the two apart until it stores them, and who sends `[]` comes to own the field. The decoder keeps a note of them
(`canonical.Sparse`), which comparing values does not see.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from understudy.apiserver.canonical import Sparse
from understudy.apiserver.patch.fieldset import LEAF, Set
from understudy.apiserver.schema import Field, List, Map, Struct

_Places = tuple[tuple[str, "_Places"], ...]  # (name of a field, the places in it); none for the list itself


def was_empty(obj: Any, name: str) -> bool:
    """Whether a list or map of a decoded struct was there, without elements."""
    return isinstance(obj, Sparse) and name in obj.empty


def emptied(struct: Struct, old: Any, new: Any) -> Set:
    """The fields that are empty in `new` and null in `old`."""
    return _emptied(_places(struct), old, new)


def _emptied(places: _Places, old: Any, new: Any) -> Set:
    out: Set = {}
    for name, deeper in places:
        before, after = old.get(name), new.get(name)
        if deeper and before and after:
            if node := _emptied(deeper, before, after):
                out["f:" + name] = node
        elif not deeper and before is None and after is None and was_empty(new, name):
            out["f:" + name] = LEAF
    return out


@lru_cache(maxsize=1024)
def _places(struct: Struct, above: tuple[Struct, ...] = ()) -> _Places:
    """Where in a struct there are lists that are never left out. Those in lists and atomic structs do not count."""
    found: list[tuple[str, _Places]] = []
    for field in struct.fields.values():
        if isinstance(field.type, List | Map) and not field.omitempty:
            found.append((field.json, ()))
        elif isinstance(field.type, Struct) and field.type not in (*above, struct) and not _is_atomic(field):
            if deeper := _places(field.type, (*above, struct)):
                found.append((field.json, deeper))
    return tuple(found)


def _is_atomic(field: Field) -> bool:
    openapi = field.type.openapi if isinstance(field.type, Struct) else {}
    return field.openapi.get("x-kubernetes-map-type", openapi.get("x-kubernetes-map-type")) == "atomic"
