"""Removal of fields that a manager has applied before and does not send any more, unless another manager owns them.

Elements of lists and structs that the manager brought in are removed with all that is in them, except for fields that
others own or no manager does.
"""

from __future__ import annotations

from understudy.machinery.errors import unknown_error
from understudy.machinery.patch.apply.managed_fields import Updater
from understudy.machinery.patch.apply.managers import ManagedFields, VersionedSet
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, intersection, union
from understudy.machinery.patch.structured_merge_diff.remove_items import remove_items
from understudy.machinery.patch.structured_merge_diff.to_field_set import ensure_named_fields_are_members, to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, MapType
from understudy.machinery.types import Obj


def prune(
    updater: Updater, merged: Obj, managers: ManagedFields, own: VersionedSet, previous: VersionedSet | None
) -> Obj:
    """Return `merged` without the fields that only `previous` owns, in the request's version (upstream:
    `Updater.prune`). Raises StatusError.

    `managers` are all owners, with `own`, what the manager owns now.
    """
    if previous is None or not previous.fields or _keeps_all(updater, own, previous):
        return merged
    try:
        return _prune(updater, merged, managers, previous)
    except InvalidValue as error:
        raise unknown_error(f"failed to prune fields: {error}") from None


def _keeps_all(updater: Updater, own: VersionedSet, previous: VersionedSet) -> bool:
    """Report whether a manager still sends all fields of its previous apply."""
    if own.api_version != previous.api_version:
        return False
    kind = updater.type.merge_type
    return not difference(
        ensure_named_fields_are_members(kind, previous.fields), ensure_named_fields_are_members(kind, own.fields)
    )


def _prune(updater: Updater, merged: Obj, managers: ManagedFields, previous: VersionedSet) -> Obj:
    before = VersionedObject.of(updater, merged, previous.api_version)
    if before is None:
        return merged
    named = before.with_named_fields(previous.fields)
    rest: Obj = remove_items(before.kind, before.obj, named)
    for version, owned in _union_by_version(managers, previous.api_version).items():
        rest = _add_back_owned_items(updater, merged, rest, version, owned)
    remaining = VersionedObject.of(updater, rest, previous.api_version)
    if remaining is None:
        return merged
    removed = difference(before.all_fields(), remaining.all_fields())
    out: Obj = remove_items(before.kind, before.obj, intersection(removed, named))
    return updater.convert(out, updater.api_version) or merged


def _union_by_version(managers: ManagedFields, first: str) -> dict[str, Set]:
    """Return all owned fields by API version; `first` comes first, because others may need its fields to be
    converted."""
    out: dict[str, Set] = {first: {}}
    for owned in managers.values():
        out[owned.api_version] = union(out.get(owned.api_version, {}), owned.fields)
    return {version: fields for version, fields in out.items() if fields}


def _add_back_owned_items(updater: Updater, merged: Obj, rest: Obj, version: str, owned: Set) -> Obj:
    """Return `rest` with the fields that are owned in a version restored from `merged` (upstream:
    `addBackOwnedItems`)."""
    full, small = VersionedObject.of(updater, merged, version), VersionedObject.of(updater, rest, version)
    if full is None or small is None:
        return rest
    removed = difference(full.all_fields(), union(small.all_fields(), full.with_named_fields(owned)))
    restored: Obj = remove_items(full.kind, full.obj, removed)
    return restored


class VersionedObject:
    """An object in the form of an API version, with its type there (upstream: `TypedValue`)."""

    def __init__(self, obj: Obj, kind: MapType) -> None:
        self.obj = obj
        self.kind = kind

    @staticmethod
    def of(updater: Updater, obj: Obj, version: str) -> VersionedObject | None:
        """Return an object in the form of a version, None if the version is gone."""
        type_ = updater.type_of(version)
        converted = updater.convert(obj, version)
        return None if type_ is None or converted is None else VersionedObject(converted, type_.merge_type)

    def with_named_fields(self, fields: Set) -> Set:
        """Return `fields` with the named fields that lead to them."""
        return ensure_named_fields_are_members(self.kind, fields)

    def all_fields(self) -> Set:
        """Return all fields of the object."""
        return self.with_named_fields(to_field_set(self.kind, self.obj))
