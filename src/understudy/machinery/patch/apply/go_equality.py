"""What a request sends differently from what is stored, although it comes to the same: Go tells the two apart until it
stores them, and who sends it comes to own the field.

That is a list sent empty where null is stored. In atomic lists, which the real server compares deeply, it is also any
list or map sent so in an element, and a quantity that is another Go value than the stored one ("1024Mi" for "1Gi"). The
decoder keeps a note of all three (`canonical.Sparse`, `quantity.Respelt`), which comparing values does not see.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from understudy.machinery.patch.structured_merge_diff.field_set import LEAF, Set
from understudy.machinery.quantity import RewrittenQuantity
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.typeinfo.schema import Field, List, Map, Scalar, Struct


class _Place(NamedTuple):
    """A field to look at. `below`: the places in its struct; none for a list or map. `empty`: whether it may be sent
    empty; `atomic`: whether it is a list that is compared deeply."""

    name: str
    below: tuple[_Place, ...] = ()
    empty: bool = False
    atomic: bool = False


def was_sent_empty(obj: Any, name: str) -> bool:
    """Whether a list or map of a decoded struct was there, without elements."""
    return isinstance(obj, WithEmptyFields) and name in obj.empty


def go_differences(struct: Struct, old: Any, new: Any) -> Set:
    """The fields of `new` that are the same in `old`, the stored object, but not to Go."""
    return _told_apart(_places(struct), old, new)


def _told_apart(places: tuple[_Place, ...], old: Any, new: Any) -> Set:
    out: Set = {}
    for place in places:
        before, after = old.get(place.name), new.get(place.name)
        if before and after:
            if place.below:
                if node := _told_apart(place.below, before, after):
                    out["f:" + place.name] = node
            elif place.atomic and before is not after and _is_other(after):
                out["f:" + place.name] = LEAF
        elif place.empty and before is None and after is None and was_sent_empty(new, place.name):
            out["f:" + place.name] = LEAF
    return out


_SCALARS = frozenset((str, int, bool, type(None)))  # most of what there is: not worth a call


def _is_other(value: Any) -> bool:
    """Whether what was sent is another Go value than what is stored."""
    if isinstance(value, WithEmptyFields | RewrittenQuantity):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:  # noqa: SIM110  # a generator takes twice as long
        if type(item) not in _SCALARS and _is_other(item):
            return True
    return False


@lru_cache(maxsize=1024)
def _places(struct: Struct, above: tuple[Struct, ...] = ()) -> tuple[_Place, ...]:
    """The places in a struct. Those in lists and atomic structs do not count."""
    found: list[_Place] = []
    for field in struct.fields.values():
        if isinstance(field.type, List | Map):
            place = _Place(field.json, empty=not field.omitempty, atomic=_is_deep(field))
            found += [place] if place.empty or place.atomic else []
        elif isinstance(field.type, Struct) and field.type not in (*above, struct) and not _is_atomic(field):
            if below := _places(field.type, (*above, struct)):
                found.append(_Place(field.json, below))
    return tuple(found)


def _is_deep(field: Field) -> bool:
    """Whether it is an atomic list of what has parts."""
    return isinstance(field.type, List) and field.list_type == "atomic" and not isinstance(field.type.element, Scalar)


def _is_atomic(field: Field) -> bool:
    openapi = field.type.openapi if isinstance(field.type, Struct) else {}
    return field.openapi.get("x-kubernetes-map-type", openapi.get("x-kubernetes-map-type")) == "atomic"
