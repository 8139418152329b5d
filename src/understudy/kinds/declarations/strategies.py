"""Parts that the strategies of many kinds share: objects with a status, zero values, sequences of functions.

A kind with a status has two strategies: that of `resource_strategy` keeps the stored status, that of `status_strategy`
keeps the stored spec.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Custom, Schemas, Shape, Struct
from understudy.machinery.types import GroupVersionKind, Obj, deep_copy

Create = Callable[[Obj, Context], None]
Update = Callable[[Obj, Obj, Context], None]

# The zero values of types other than numbers.
_ZEROS: dict[str, Any] = {"string": "", "bool": False}


def zero_value(struct: Struct) -> Obj:
    """Return the JSON of an empty Go value of a type: `{"nodeInfo": {"machineID": "", …}}`."""
    out: Obj = {}
    for name, field in struct.fields.items():
        if field.omitzero:
            continue
        if isinstance(field.type, Struct) and not field.pointer:
            out[name] = zero_value(field.type)
        elif not field.omitempty or (field.type == Custom("Time", "v1.Time") and not field.pointer):
            out[name] = None if field.pointer else _zero(field.type)
    return out


def _zero(shape: Shape) -> Any:
    """Return the zero value of a shape."""
    kind = getattr(shape, "kind", "")
    if kind.startswith(("int", "uint", "float")):
        return 0
    return _ZEROS.get(kind)


@lru_cache
def _zero_status(version: Version, gvk: GroupVersionKind) -> Obj:
    """Return the JSON of an empty status of a kind."""
    shape = Schemas.of(version).kind(*gvk).fields["status"].type
    return zero_value(shape) if isinstance(shape, Struct) else {}


def create_steps(*rules: Create) -> Create:
    """Return a function that calls all `rules` of a create in turn."""

    def run(obj: Obj, ctx: Context) -> None:
        for rule in rules:
            rule(obj, ctx)

    return run


def update_steps(*rules: Update) -> Update:
    """Return a function that calls all `rules` of an update in turn."""

    def run(obj: Obj, old: Obj, ctx: Context) -> None:
        for rule in rules:
            rule(obj, old, ctx)

    return run


def copy_stored(obj: Obj, old: Obj, *names: str) -> None:
    """Set fields of `obj` to their values in `old`, in place; fields that `old` does not have are removed."""
    for name in names:
        if name in old:
            obj[name] = deep_copy(old[name])
        else:
            obj.pop(name, None)


def keep_stored(*names: str) -> Update:
    """Return an update step that keeps top-level fields as they are stored."""
    return lambda obj, old, ctx: copy_stored(obj, old, *names)


def keep_metadata(*names: str) -> Update:
    """Return an update step that keeps fields of the metadata as they are stored."""
    return lambda obj, old, ctx: copy_stored(obj["metadata"], old["metadata"], *names)


# Metadata that a status update cannot change, for kinds that reset it (upstream: `ResetObjectMetaForStatus`).
RESET_FOR_STATUS = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def reset_status(group: str, version: str, kind: str) -> Create:
    """Return a create step that empties the status, which clients cannot set on create."""
    gvk = GroupVersionKind(group, version, kind)

    def rule(obj: Obj, ctx: Context) -> None:
        obj["status"] = deep_copy(_zero_status(ctx.release, gvk))

    return rule


STATUS_RESET = {"": (("status",),)}
SPEC_RESET = {"": (("spec",),)}
METADATA_RESET = {"": (("spec",), ("metadata",))}  # for a status update that cannot change metadata


def resource_strategy(
    group: str, version: str, kind: str, *prepare: Create, prepare_update: Update | None = None, **rules: Any
) -> Strategy:
    """Return the strategy of a resource with a status subresource.

    On create the status is emptied and then `prepare` runs; on update the stored status is kept and `prepare_update`
    runs. `rules` are further fields of the Strategy.
    """
    on_update = [keep_stored("status")] + ([prepare_update] if prepare_update else [])
    return Strategy(
        prepare_for_create=create_steps(reset_status(group, version, kind), *prepare),
        prepare_for_update=update_steps(*on_update),
        **{"reset_fields": STATUS_RESET, **rules},
    )


def status_strategy(*prepare: Update, **rules: Any) -> Strategy:
    """Return the strategy of a status subresource: the stored spec is kept and `prepare` runs. `rules` are further
    fields of the Strategy."""
    return Strategy(
        prepare_for_update=update_steps(keep_stored("spec"), *prepare), **{"reset_fields": SPEC_RESET, **rules}
    )


def new_object(api_version: str, kind: str, name: str, *, metadata: Obj | None = None, **fields: Any) -> Obj:
    """Return an object with a name and further fields."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}
