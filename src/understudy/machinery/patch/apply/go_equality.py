"""Fields that are equal in JSON but not in Go: whoever sends them comes to own them.

A request may send a list empty where null is stored; Go tells the two apart until it stores them. In atomic lists,
which the real server compares deeply, the same holds for any list or map in an element, and for a quantity that is
another Go value than the stored one ("1024Mi" for "1Gi"). The decoder marks all three (`WithEmptyFields`,
`RewrittenQuantity`), which comparing values does not see.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from understudy.machinery.patch.structured_merge_diff.field_set import LEAF, Set
from understudy.machinery.quantity import RewrittenQuantity
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.typeinfo.go_types import Field, List, Map, Scalar, Struct
from understudy.machinery.types import NamedTuple


class _ComparedField(NamedTuple):
    """A field to compare.

    `below` are the fields of its struct to compare, by name; none for a list or map. `empty`: it may be sent empty;
    `atomic`: it is a list that is compared deeply.
    """

    below: dict[str, _ComparedField] | None = None
    empty: bool = False
    atomic: bool = False


def go_differences(struct: Struct, old: Any, new: Any) -> Set:
    """Return the fields of `new` that equal those of `old`, the stored object, in JSON but not in Go."""
    return _go_differences(_compared_fields(struct), old, new)


def _go_differences(places: dict[str, _ComparedField], old: Any, new: Any) -> Set:
    out: Set = {}
    for name, after in new.items():
        place = places.get(name)
        if place is None or not after or not (before := old.get(name)):
            continue
        if place.below:
            if node := _go_differences(place.below, before, after):
                out["f:" + name] = node
        elif place.atomic and before is not after and _differs_in_go(after):
            out["f:" + name] = LEAF
    for name in new.empty if isinstance(new, WithEmptyFields) else ():
        if (place := places.get(name)) is not None and place.empty and old.get(name) is new.get(name) is None:
            out["f:" + name] = LEAF
    return out


_SCALARS = frozenset((str, int, bool, type(None)))  # most values: not worth a call


def _differs_in_go(value: Any) -> bool:
    """Report whether any value in `value` was sent as another Go value than the one that is stored."""
    if isinstance(value, WithEmptyFields | RewrittenQuantity):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:  # noqa: SIM110  # a generator takes twice as long
        if type(item) not in _SCALARS and _differs_in_go(item):
            return True
    return False


@lru_cache(maxsize=1024)
def _compared_fields(struct: Struct, above: tuple[Struct, ...] = ()) -> dict[str, _ComparedField]:
    """Return the fields of a struct to compare, by name. Those in lists and atomic structs do not count."""
    out: dict[str, _ComparedField] = {}
    for field in struct.fields.values():
        if isinstance(field.type, List | Map):
            place = _ComparedField(empty=not field.omitempty, atomic=_is_compared_deeply(field))
            if place.empty or place.atomic:
                out[field.json] = place
        elif isinstance(field.type, Struct) and field.type not in (*above, struct) and not _is_atomic(field):
            if below := _compared_fields(field.type, (*above, struct)):
                out[field.json] = _ComparedField(below)
    return out


def _is_compared_deeply(field: Field) -> bool:
    """Report whether a field is an atomic list of structs, maps or lists."""
    return isinstance(field.type, List) and field.list_type == "atomic" and not isinstance(field.type.element, Scalar)


def _is_atomic(field: Field) -> bool:
    openapi = field.type.openapi if isinstance(field.type, Struct) else {}
    return field.openapi.get("x-kubernetes-map-type", openapi.get("x-kubernetes-map-type")) == "atomic"
