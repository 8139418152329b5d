"""Sets of fields adapted to a schema that has changed: no part of an atomic field is owned, only the whole."""

from __future__ import annotations

from understudy.machinery.patch.structured_merge_diff.field_set import LEAF, Set
from understudy.machinery.patch.structured_merge_diff.typed import AtomicList, ListType, MapType, Type


def reconcile_field_set(kind: Type, fields: Set) -> Set:
    """Return `fields` with the paths that lead into atomic fields replaced by those fields (upstream:
    `ReconcileFieldSetWithSchema`)."""
    out = {}
    for name, node in fields.items():
        child = _child(kind, name)
        if not node or child is None or name == ".":
            out[name] = node
        elif isinstance(child, AtomicList) or (isinstance(child, MapType) and child.atomic):
            out[name] = LEAF
        else:
            out[name] = reconcile_field_set(child, node)
    return out


def _child(kind: Type, name: str) -> Type | None:
    """Return the type that a path element leads to, None where the schema does not say."""
    if isinstance(kind, ListType):
        return kind.element
    if isinstance(kind, MapType) and name.startswith("f:"):
        return kind.fields.get(name[2:]) or kind.element
    return None
