"""The steps around a strategy that are the same for every kind: metadata are filled in and kept, the object is
prepared, validated and canonicalized. Nothing here reads or writes the store.

Source: k8s.io/apiserver/pkg/registry/rest (BeforeCreate, BeforeUpdate).
"""

from __future__ import annotations

from functools import partial

from understudy.apiserver.storage.interface import Entry
from understudy.cel.limits.interrupts import evaluated
from understudy.kinds.common import objectmeta
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind, Strategy
from understudy.kinds.declared_rules import with_declared_errors
from understudy.machinery import errors
from understudy.machinery.golang.text import parse_int
from understudy.machinery.serializer.json_fast import empty_fields, keep_empty_fields
from understudy.machinery.types import NamedTuple, Obj, deep_copy, same_json, split_api_version
from understudy.machinery.util.pieces import release
from understudy.machinery.validation.bad_values import Unsigned
from understudy.machinery.validation.field import Errors, Path, invalid
from understudy.machinery.validation.generated_names import generate_name, new_uid
from understudy.machinery.validation.names import path_segment_name

WIPED = frozenset(("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"))


class WriteTarget(NamedTuple):
    """The object that a write is for. `strategy` is that of the resource or of its subresource."""

    kind: Kind
    namespace: str
    name: str
    strategy: Strategy
    ctx: Context
    dry_run: bool = False


def strategy_of(kind: Kind, subresource: str) -> Strategy:
    """Return the strategy of a kind ("") or of a subresource such as "status" that writes the object."""
    if subresource != "status":
        return kind.behavior.subresources.get(subresource, kind.behavior.strategy)
    if kind.behavior.status is not None:
        return kind.behavior.status
    return _GENERIC_STATUS


def _keep_spec(obj: Obj, old: Obj, ctx: Context) -> None:
    """Keep all but metadata and status as stored, in place: a write of the status cannot change it."""
    for name in [n for n in obj if n not in ("metadata", "status") and n not in old]:
        del obj[name]
    for name, value in old.items():
        if name not in ("metadata", "status"):
            obj[name] = value


_GENERIC_STATUS = Strategy(prepare_for_update=_keep_spec, reset_fields={"": (("spec",),)})


async def before_create(target: WriteTarget, obj: Obj) -> None:
    """Complete a new object in place: fill in metadata, prepare, validate, canonicalize (`BeforeCreate`).

    Raises 422 and what the strategy raises.
    """
    kind, strategy, ctx = target.kind, target.strategy, target.ctx
    fill_metadata(obj, kind, strategy, target.namespace, ctx)
    strategy.prepare_for_create(obj, ctx)
    _raise_invalid(kind, obj, await evaluated(partial(validate, obj, kind, strategy, ctx)))
    strategy.warn_create(obj, ctx)
    strategy.canonicalize(obj, ctx)


def wipe_object_meta_system_fields(obj: Obj, uncreated: Obj) -> None:
    """Remove the metadata that only the server sets from a new object (`WipeObjectMetaSystemFields`).

    `uncreated` is the metadata of an object that is not created yet.
    """
    fields = {name: value for name, value in obj["metadata"].items() if name not in WIPED}
    obj["metadata"] = {**fields, **uncreated}


def fill_metadata(obj: Obj, kind: Kind, strategy: Strategy, namespace: str, ctx: Context) -> None:
    """Fill in uid, time of creation and name of a new object, in place (`FillObjectMetaSystemFields`)."""
    fields = obj["metadata"]
    fields |= {"creationTimestamp": ctx.now, "uid": new_uid()}
    if fields.get("generateName") and not fields.get("name"):
        fields["name"] = generate_name(fields["generateName"])
    if kind.namespaced:
        fields["namespace"] = namespace
    else:
        fields.pop("namespace", None)
    if strategy.generation:
        fields["generation"] = 1


def validate(obj: Obj, kind: Kind, strategy: Strategy, ctx: Context) -> Errors:
    """Return the errors of a new object that the strategy has prepared.

    The rules of the kind come first: the errors that all names have in common are only returned if those find nothing.
    The server and `understudy validate` decide by this function.
    """
    common = objectmeta.validate(obj["metadata"], namespaced=kind.namespaced, name=path_segment_name)
    ctx.metadata_validated = not common
    errors = strategy.validate_metadata(obj, ctx) + strategy.validate(obj, ctx) or common
    return with_declared_errors(kind, obj, None, ctx, errors)


async def before_update(target: WriteTarget, obj: Obj, old: Obj) -> None:
    """Complete an update in place: keep metadata, prepare, validate, canonicalize (`BeforeUpdate`). Raises 422."""
    kind, strategy, ctx = target.kind, target.strategy, target.ctx
    fields, before = obj["metadata"], old["metadata"]
    _keep(fields, before, "generation")
    strategy.prepare_for_update(obj, old, ctx)
    fields = obj["metadata"]
    if strategy.generation and _spec_changed(obj, old, strategy.generation_counts_empty):
        fields["generation"] = before.get("generation", 0) + 1
    if not fields.get("uid"):
        _keep(fields, before, "uid")
    _keep(fields, before, "creationTimestamp")
    if "deletionTimestamp" in before:
        fields["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in before:
        fields.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    if kind.namespaced:
        fields["namespace"] = target.namespace
    else:
        fields.pop("namespace", None)
    field_errors = objectmeta.validate(fields, namespaced=kind.namespaced, name=path_segment_name)
    field_errors += objectmeta.validate_update(fields, before, validated=not field_errors)
    ctx.metadata_validated = not field_errors
    field_errors += await evaluated(partial(strategy.validate_update, obj, old, ctx))
    field_errors = with_declared_errors(kind, obj, old, ctx, field_errors)
    _raise_invalid(kind, obj, field_errors)
    strategy.warn_update(obj, old, ctx)
    strategy.canonicalize(obj, ctx)


def _raise_invalid(kind: Kind, obj: Obj, field_errors: Errors) -> None:
    """Raise 422 if there are errors, which are freed."""
    if field_errors:
        raise _invalid(kind, obj, field_errors)


def _invalid(kind: Kind, obj: Obj, field_errors: Errors) -> errors.StatusError:
    """Return 422, and free the errors. It names the kind that a custom resource itself says it is of."""
    group, name = kind.stored.group, kind.stored.kind
    if kind.custom is not None:
        group, name = split_api_version(obj["apiVersion"])[0], obj["kind"]
    named, custom = str(obj["metadata"].get("name", "")), kind.custom is not None
    error = errors.invalid(group, name, named, field_errors, kind.release, pointers_differ=custom)
    release(field_errors)
    return error


def check_version(target: WriteTarget, obj: Obj, current: Entry) -> None:
    """Raise 409 if the sent resourceVersion is not the stored one, 422 if it is missing and required."""
    version, kind = sent_version(obj), target.kind
    if version == 0:
        strategy = target.strategy
        if not strategy.unconditional_update or target.ctx.version in strategy.conditional_in:
            error = invalid(Path("metadata", "resourceVersion"), Unsigned(0), "must be specified for an update")
            raise errors.invalid(kind.group, kind.resource, target.name, [error], kind.release)
        obj["metadata"]["resourceVersion"] = str(current.revision)
    elif version != current.revision:
        raise errors.optimistic_lock_conflict(kind.group, kind.resource, target.name)


def sent_version(obj: Obj) -> int:
    """Return the resourceVersion that a client has sent, 0 for none. Raises 500 for text that is no number."""
    text = obj["metadata"].get("resourceVersion", "")
    try:
        return parse_int(text, signed=False) if text else 0
    except ValueError as error:
        raise errors.unknown_error(str(error)) from error


def should_delete_during_update(kind: Kind, obj: Obj, old: Obj) -> bool:
    """Report whether an update removed the last finalizer of an object that is being deleted (upstream:
    `ShouldDeleteDuringUpdate`)."""
    if obj["metadata"].get("finalizers") or kind.behavior.held_by_spec_finalizers(obj):
        return False
    before = old["metadata"]
    return "deletionTimestamp" in before and not before.get("deletionGracePeriodSeconds")


def as_read(kind: Kind, value: Obj, ctx: Context) -> Obj:
    """Return a new object, in the form in which it is stored, with the defaults that it gets when it is decoded.

    It is the same object unless the strategy of its kind removes such defaults.
    """
    if not kind.behavior.defaulted_on_read:
        return value
    read: Obj = deep_copy(value)
    kind.behavior.defaults(read, ctx)
    return read


def is_unchanged(kind: Kind, obj: Obj, old: Obj) -> bool:
    """Report whether an update changes nothing, or the times of managed fields only.

    Upstream: `ignoreManagedFieldsTimestampsTransformer`.
    """
    if _equal(kind, obj, old):
        return True
    after, before = obj["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if not after or not before or after == before or len(after) != len(before):
        return False
    if not _equal(kind, {**obj, "metadata": {**obj["metadata"], "managedFields": before}}, old):
        return False
    return all({**a, "time": ""} == {**b, "time": ""} for a, b in zip(after, before, strict=True))


def differs_at_once(obj: Obj, old: Obj) -> bool:
    """Report whether managed fields tell that an update changes more than their times, or that those stay.

    Upstream: the fast path of `IgnoreManagedFieldsTimestampsTransformer`.
    """
    after, before = obj["metadata"].get("managedFields") or (), old["metadata"].get("managedFields") or ()
    if after == before or len(after) != len(before):
        return True
    pairs = [*zip(after, before, strict=True)]
    return all(a.get("time") == b.get("time") for a, b in pairs) or any(
        {**a, "time": ""} != {**b, "time": ""} for a, b in pairs
    )


def _equal(kind: Kind, a: Obj, b: Obj) -> bool:
    """Report whether two objects are equal. Custom resources may have 1 in place of true, its equal in Python."""
    return a == b and (kind.custom is None or same_json(a, b))


def _keep(fields: Obj, before: Obj, name: str) -> None:
    """Set a field of the metadata to its stored value, in place."""
    if name in before:
        fields[name] = before[name]
    else:
        fields.pop(name, None)


def _spec_changed(obj: Obj, old: Obj, counts_empty: bool) -> bool:
    """Report whether anything but metadata and status differs.

    counts_empty  whether a list or map that is sent empty differs from one that is not sent, and empty bytes from none
    """
    ignored = ("metadata", "status", "kind", "apiVersion")
    spec, before = ({k: v for k, v in some.items() if k not in ignored} for some in (obj, old))
    if counts_empty:
        sent = dict(empty_fields(keep_empty_fields(obj, spec)))
        stored = {path for path, value in empty_fields(before) if value == ""}
        if sent.keys() != stored:  # an empty list or map is none once it is stored, bytes stay empty
            return True
    return spec != before
