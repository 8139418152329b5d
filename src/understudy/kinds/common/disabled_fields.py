"""Fields behind feature gates: dropped while the gate is off, kept once the stored object uses them.

    GUARDS = (field_guard(features.JOB_SUCCESS_POLICY, "spec", "successPolicy"), …)
    drop_disabled_fields(GUARDS, job, old, ctx.gates)

Each kind has a table of guards. Upstream has a function `dropDisabledFields` for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.machinery.releases.features import Gate, Gates
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.types import NamedTuple, Obj, nested_field

Use = Callable[[Obj], bool]
Drop = Callable[[Obj], None]


class Guard(NamedTuple):
    """A feature gate, a test whether a stored object uses its feature, and a function that takes its fields away."""

    gate: Gate
    is_used: Use
    drop: Drop


def field_guard(gate: Gate, *path: str) -> Guard:
    """Return the guard of one field, such as ("spec", "managedBy")."""
    *parents, name = path

    def drop(obj: Obj) -> None:
        remove_fields(nested_field(obj, *parents) or {}, name)

    return Guard(gate, lambda obj: nested_field(obj, *path) is not None, drop)


def remove_fields(obj: Obj, *names: str) -> None:
    """Remove fields in place, also from those that are noted as sent empty."""
    for name in names:
        obj.pop(name, None)
    if isinstance(obj, WithEmptyFields):
        obj.empty = {name: value for name, value in obj.empty.items() if name not in names}


def drop_disabled_fields(guards: Iterable[Guard], obj: Obj, old: Obj | None, gates: Gates) -> None:
    """Drop from an object, in place, the fields whose gate is off and whose feature the stored object does not use.

    A gate that came with a later release drops nothing: it guards fields, or values of them, that are not known yet.

    old  the stored object, or what else decides whether a feature is in use; None for a new object
    """
    off = gates.off
    for gate, is_used, drop in guards:
        if gate in off and (old is None or not is_used(old)):
            drop(obj)
