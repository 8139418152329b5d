"""Removes what a manager has applied before and does not state any more, unless somebody else owns it.

Elements of lists and structs that it brought in go with all that is in them, but for what others own or nobody does.
"""

from __future__ import annotations

from understudy.machinery.errors import unknown_error
from understudy.machinery.patch.apply.managed_fields import Updater
from understudy.machinery.patch.apply.managers import ManagedFields, VersionedSet
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, intersection, union
from understudy.machinery.patch.structured_merge_diff.remove_items import remove_items
from understudy.machinery.patch.structured_merge_diff.to_field_set import ensure_named_fields_are_members, to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, StructType, type_of
from understudy.machinery.types import Obj


def prune(update: Updater, merged: Obj, managers: ManagedFields, mine: VersionedSet, last: VersionedSet | None) -> Obj:
    """`merged` without what only `last` owns, in the request's form. `managers` hold `mine`. Raises StatusError."""
    if last is None or not last.fields or _is_all_kept(update, mine, last):
        return merged
    try:
        return _pruned(update, merged, managers, last)
    except InvalidValue as why:
        raise unknown_error(f"failed to prune fields: {why}") from None


def _is_all_kept(update: Updater, mine: VersionedSet, last: VersionedSet) -> bool:
    if mine.api_version != last.api_version:
        return False
    kind = type_of(update.struct)
    return not difference(
        ensure_named_fields_are_members(kind, last.fields), ensure_named_fields_are_members(kind, mine.fields)
    )


def _pruned(update: Updater, merged: Obj, managers: ManagedFields, last: VersionedSet) -> Obj:
    form = VersionedObject.of(update, merged, last.api_version)
    if form is None:
        return merged
    named = form.named(last.fields)
    rest: Obj = remove_items(form.kind, form.obj, named)
    for version, owned in _by_version(managers, last.api_version).items():
        rest = _with_owned(update, merged, rest, version, owned)
    left = VersionedObject.of(update, rest, last.api_version)
    if left is None:
        return merged
    gone = difference(form.all_fields(), left.all_fields())
    out: Obj = remove_items(form.kind, form.obj, intersection(gone, named))
    return update.convert(out, update.api_version) or merged


def _by_version(managers: ManagedFields, first: str) -> dict[str, Set]:
    """All that is owned, by API version; `first` comes first: another may need its fields to be converted."""
    out: dict[str, Set] = {first: {}}
    for owned in managers.values():
        out[owned.api_version] = union(out.get(owned.api_version, {}), owned.fields)
    return {version: fields for version, fields in out.items() if fields}


def _with_owned(update: Updater, merged: Obj, rest: Obj, version: str, owned: Set) -> Obj:
    """`rest` with what is owned in that version back from `merged`."""
    full, small = VersionedObject.of(update, merged, version), VersionedObject.of(update, rest, version)
    if full is None or small is None:
        return rest
    gone = difference(full.all_fields(), union(small.all_fields(), full.named(owned)))
    back: Obj = remove_items(full.kind, full.obj, gone)
    return back


class VersionedObject:
    """An object in the form of an API version, with its type there."""

    def __init__(self, obj: Obj, kind: StructType) -> None:
        self.obj = obj
        self.kind = kind

    @staticmethod
    def of(update: Updater, obj: Obj, version: str) -> VersionedObject | None:
        """None if the version is gone."""
        struct = update.struct_of(version)
        converted = update.convert(obj, version)
        return None if struct is None or converted is None else VersionedObject(converted, type_of(struct))

    def named(self, fields: Set) -> Set:
        return ensure_named_fields_are_members(self.kind, fields)

    def all_fields(self) -> Set:
        return self.named(to_field_set(self.kind, self.obj))
