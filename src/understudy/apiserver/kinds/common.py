"""What the rules of many kinds share: strategies of objects with a status, zero values, steps in a row.

A kind with a status is written twice: `main` keeps the stored status, `status` keeps the stored spec.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any

from understudy.admission.context import Context
from understudy.apiserver.registry.kind import Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.schema import Custom, Schemas, Shape, Struct
from understudy.machinery.types import Obj

Create = Callable[[Obj, Context], None]
Update = Callable[[Obj, Obj, Context], None]

# What serves as zero where omitempty does not leave a field out.
_ZEROS: dict[str, Any] = {"string": "", "bool": False}


def zero(struct: Struct) -> Obj:
    """What an empty Go value of a type looks like in JSON: `{"nodeInfo": {"machineID": "", …}}`."""
    out: Obj = {}
    for name, found in struct.fields.items():
        if isinstance(found.type, Struct) and not found.pointer:
            out[name] = zero(found.type)
        elif not found.omitempty or (found.type == Custom("Time", "v1.Time") and not found.pointer):
            out[name] = None if found.pointer else _zero(found.type)
    return out


def _zero(shape: Shape) -> Any:
    kind = getattr(shape, "kind", "")
    if kind.startswith(("int", "uint", "float")):
        return 0
    return _ZEROS.get(kind)


@lru_cache
def _zero_status(release: Version, group: str, version: str, kind: str) -> Obj:
    shape = Schemas.of(release).kind(group, version, kind).fields["status"].type
    return zero(shape) if isinstance(shape, Struct) else {}


def steps(*rules: Create) -> Create:
    """Rules on create, one after the other."""

    def run(obj: Obj, ctx: Context) -> None:
        for rule in rules:
            rule(obj, ctx)

    return run


def update_steps(*rules: Update) -> Update:
    """Rules on update, one after the other."""

    def run(obj: Obj, old: Obj, ctx: Context) -> None:
        for rule in rules:
            rule(obj, old, ctx)

    return run


def restore(obj: Obj, old: Obj, *names: str) -> None:
    """Makes fields of `obj` what they are in `old`."""
    for name in names:
        if name in old:
            obj[name] = deepcopy(old[name])
        else:
            obj.pop(name, None)


def keep(*names: str) -> Update:
    """Top-level fields that an update cannot change."""
    return lambda obj, old, ctx: restore(obj, old, *names)


def keep_metadata(*names: str) -> Update:
    """Fields of the metadata that an update cannot change."""
    return lambda obj, old, ctx: restore(obj["metadata"], old["metadata"], *names)


# What of the metadata a status update leaves as it is, for kinds that say so.
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
    """Clients do not set the status when they create an object."""

    def rule(obj: Obj, ctx: Context) -> None:
        obj["status"] = deepcopy(_zero_status(ctx.release, group, version, kind))

    return rule


STATUS_RESET = {"": (("status",),)}
SPEC_RESET = {"": (("spec",),)}
METADATA_RESET = {"": (("spec",), ("metadata",))}  # of a status that takes no metadata along


def main(
    group: str, version: str, kind: str, *prepare: Create, prepare_update: Update | None = None, **rules: Any
) -> Strategy:
    """The strategy of a resource with a status subresource: `prepare` runs on create after the status is reset."""
    on_update = [keep("status")] + ([prepare_update] if prepare_update else [])
    return Strategy(
        prepare_for_create=steps(reset_status(group, version, kind), *prepare),
        prepare_for_update=update_steps(*on_update),
        **{"reset_fields": STATUS_RESET, **rules},
    )


def status(*prepare: Update, **rules: Any) -> Strategy:
    """The strategy of a status subresource: the spec stays."""
    return Strategy(prepare_for_update=update_steps(keep("spec"), *prepare), **{"reset_fields": SPEC_RESET, **rules})


def new_object(api_version: str, kind: str, name: str, *, metadata: Obj | None = None, **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}
