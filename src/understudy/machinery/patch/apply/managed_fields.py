"""metadata.managedFields: which manager owns which field, kept up to date on every create, update and patch.

A manager owns the fields that its write changes or adds, whoever owned them before; no manager owns the fields that it
removes. A write that changes nothing leaves the owners as they are, times included. The rules are those of
k8s.io/apimachinery/pkg/util/managedfields. They hold for every kind that has metadata; for the scale subresource see
`scale_handler`.

Objects are in the form of the request's version, complete as they are served (`status: {}`, nulls), before fields are
reset and disabled ones dropped: so the sender may come to own fields that are not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from understudy.machinery.patch.apply import managers
from understudy.machinery.patch.apply.managers import ManagedFields, Manager, VersionedSet
from understudy.machinery.patch.apply.object_type import ObjectType, check_converted
from understudy.machinery.patch.structured_merge_diff.field_set import (
    Set,
    contains,
    difference,
    new_set,
    recursive_difference,
    union,
)
from understudy.machinery.patch.structured_merge_diff.reconcile import reconcile_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, compare
from understudy.machinery.serializer.json_fast import keep_empty_fields, was_sent_empty
from understudy.machinery.types import Obj, same_json

Paths: TypeAlias = tuple[tuple[str, ...], ...]  # of field names: (("status",), ("metadata", "labels"))
ResetFields: TypeAlias = Mapping[str, Paths]  # by API version; "" has those of the versions that are not named
Convert: TypeAlias = Callable[[Obj, str, str], Obj | None]  # (object, its version, another) -> other form

MAX_UPDATE_MANAGERS = 10
ANCIENT_CHANGES = "ancient-changes"

# Fields that no manager owns (upstream: `stripSet`), see
# https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
NEVER_OWNED = new_set(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


def no_conversion(obj: Obj, source: str, target: str) -> Obj | None:
    """Return `obj` if it is in the target version, else None: the conversion of a kind with a single version."""
    return obj if source == target else None


def starting_owners(live: Obj | None, new: Obj, subresource: str) -> ManagedFields:
    """Return the owners that a write starts from: those of the sent managedFields if they count, else those of the live
    object."""
    stored = live["metadata"].get("managedFields") if live else None
    sent = new["metadata"].get("managedFields") if not subresource else None
    if not sent or sent == stored:
        cleared = sent == [] or (not subresource and was_sent_empty(new["metadata"], "managedFields"))
        return {} if cleared else managers.decode(stored, trusted=True)
    if len(sent) == 1 and not any(value or key == "fieldsV1" for key, value in sent[0].items()):
        return {}
    try:
        return managers.decode(sent) or managers.decode(stored, trusted=True)
    except managers.InvalidEntry:
        return managers.decode(stored, trusted=True)


class Updater:
    """Computes how ownership moves when one request changes an object (upstream: `merge.Updater`)."""

    def __init__(self, type_: ObjectType, api_version: str, reset: ResetFields, convert: Convert) -> None:
        self.type = type_
        self.api_version = api_version
        self._reset = reset
        self._convert = convert

    def update(self, live: Obj | None, new: Obj, before: ManagedFields, manager: Manager, now: str) -> ManagedFields:
        """Return the owners after `manager` has replaced `live` by `new` (upstream: `Updater.Update`). Raises
        InvalidValue.

        Fields that the request cannot change are looked at for wrong types: they are dropped later, and so nothing else
        refuses them.
        """
        self.type.check(new, self._reset_fields(self.api_version))
        old = without_managed_fields(live) if live is not None else self.type.empty(self.api_version)
        self.type.check_stored(old)
        new = without_managed_fields(new)
        before = self.reconcile(old, before)
        changed, removed = self.compare(old, new, self.api_version) or ({}, {})
        changed_fields, own = difference(changed, NEVER_OWNED), before.get(manager)
        if own and changed and not removed and changed_fields == changed and contains(own.fields, changed):
            others = {owner: owned for owner, owned in before.items() if owner != manager}
            return {**self.remove_from_owners(others, old, new, changed, removed), manager: own.at(now)}
        after = self.remove_from_owners(before, old, new, changed, removed)
        if changed_fields:
            previous = after.get(manager)
            fields = union(changed_fields, previous.fields) if previous else changed_fields
            after[manager] = VersionedSet(fields, self.api_version, now)
        return after

    def remove_from_owners(
        self, before: ManagedFields, old: Obj, new: Obj, changed: Set, removed: Set
    ) -> ManagedFields:
        """Return the owners without the fields in `changed` and `removed`; a manager left with no field is dropped."""
        changes_by_version: dict[str, tuple[Set, Set] | None] = {self.api_version: (changed, removed)}
        after: ManagedFields = {}
        for owner, owned in before.items():
            version = owned.api_version
            if version not in changes_by_version:
                changes_by_version[version] = self.compare(old, new, version)
            change = changes_by_version[version]
            if change is None:
                continue
            fields = owned.fields
            if change[0]:
                fields = _unless_same(fields, difference(fields, change[0]))
            if change[1]:
                fields = _unless_same(fields, difference(fields, change[1]))
            if fields:
                after[owner] = owned.with_fields(fields)
        return after

    def compare(self, old: Obj, new: Obj, version: str) -> tuple[Set, Set] | None:
        """Return the fields that are changed or added, and those that are removed, in the form of a version; None if
        the version is gone. An object with a value that cannot be decoded has none either: it is refused afterwards."""
        type_ = self.type_of(version)
        try:
            before, after = self.convert(old, version), self.convert(new, version)
        except InvalidValue:
            return None
        if type_ is None or before is None or after is None:
            return None
        changed, removed = compare(type_.merge_type, before, after)
        changed = union(changed, type_.differences(before, after))
        return self.without_reset_fields(changed, version), self.without_reset_fields(removed, version)

    def convert(self, obj: Obj, version: str) -> Obj | None:
        """Return `obj`, which has no managed fields, in the form of a version, or None if that is gone.

        In another version it is complete as if it had been decoded: nulls become empty, fields that are always written
        come back. Raises InvalidValue for an object that cannot be decoded, as only one can be that apply has merged,
        UnconvertibleError for one that is not what the schema of that version allows: duplicates are no longer.
        """
        source = obj["apiVersion"]
        if version == source:
            return obj
        type_, own_type = self.type_of(version), self.type_of(source)
        if type_ is None or own_type is None:
            return None
        converted = self._convert(own_type.decoded(obj), source, version)
        if converted is None:
            return None
        converted = type_.decoded({**converted, "apiVersion": version})
        check_converted(type_.merge_type, converted)
        return converted

    def type_of(self, version: str) -> ObjectType | None:
        """Return the type of the kind in an API version, None if that is gone. Raises UnconvertibleError.

        It is gone for the real server, too, if it is of another group: events are served in two.
        """
        if version == self.api_version:
            return self.type
        type_ = self.type.of_version(version)
        return type_ if _group(version) == _group(self.api_version) else None

    def reconcile(self, live: Obj, before: ManagedFields) -> ManagedFields:
        """Collapse owned paths into fields that the schema treats as atomic (upstream: `ReconcileFieldSetWithSchema`).

        The schema may have changed since an entry was written. Entries that come from the store unchanged are skipped.
        Raises UnconvertibleError for one of a version that a definition does not have.
        """
        after: ManagedFields = {}
        for owner, owned in before.items():
            type_ = self.type_of(owned.api_version)
            if owned.source is not None:
                after[owner] = owned
                continue
            if type_ is not None and self.convert(live, owned.api_version) is not None:
                after[owner] = owned.with_fields(
                    _unless_same(owned.fields, reconcile_field_set(type_.merge_type, owned.fields))
                )
        return after

    def without_reset_fields(self, fields: Set, version: str) -> Set:
        """Return those of the fields, in the form of a version, that the request can change."""
        reset = self._reset_fields(version)
        return recursive_difference(fields, reset) if reset and fields else fields

    def _reset_fields(self, version: str) -> Set:
        """Return the fields that the request cannot change, in the form of a version."""
        return _set_of(self._reset.get(version) or self._reset.get("", ())) if self._reset else {}


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _unless_same(fields: Set, other: Set) -> Set:
    return fields if other == fields else other


@lru_cache(maxsize=256)
def _set_of(paths: Paths) -> Set:
    return new_set(*paths)


def without_managed_fields(obj: Obj) -> Obj:
    """Return `obj` without its managed fields (upstream: `RemoveObjectManagedFields`)."""
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    without = {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    return keep_empty_fields(obj, without)


def cap_update_managers(after: ManagedFields) -> ManagedFields:
    """Limit updaters to ten: of more, the oldest of each API version become one, `ancient-changes` (upstream:
    `capUpdateManagers`)."""
    updaters = [manager for manager in after if manager.operation == managers.UPDATE]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return after
    after = dict(after)
    first: dict[str, Manager] = {}
    updaters.sort(key=lambda manager: (after[manager].time, manager.identity()))
    for manager in updaters:
        if excess == 0:
            break
        owned = after[manager]
        version = owned.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = managers.update_manager(ANCIENT_CHANGES, version, "")
        if bucket not in after:
            after[bucket] = after.pop(first[version])
        after[bucket] = VersionedSet(union(owned.fields, after[bucket].fields), version, owned.time)
        del after[manager]  # even if it is the bucket itself, as when times tie: so does the real server
        excess -= 1
    return after


def ignore_timestamps(old: Obj, new: Obj) -> Obj:
    """Return `new` with the managed fields of `old` if only their times differ (upstream:
    `ignoreManagedFieldsTimestampsTransformer`)."""
    before, after = old["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if not before or not after or len(before) != len(after) or before == after:
        return new
    if not all(_without_time(a) == _without_time(b) for a, b in zip(before, after, strict=True)):
        return new
    if not same_json(without_managed_fields(old), without_managed_fields(new)):
        return new
    return {**new, "metadata": {**new["metadata"], "managedFields": before}}


def _without_time(entry: Obj) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}
