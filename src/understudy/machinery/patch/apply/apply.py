"""Server-side apply: a manager sends all the fields that it wants to set, and owns those.

    new = ApplyRequest(updater, patch, manager="kubectl", subresource="", now=…).run(live, force=False)

A field that another manager owns with another value is a conflict (409, one cause per field) unless the manager forces
it. A field that the manager no longer sends and no other manager owns is removed. Several managers may own a field
while they agree on its value. Rules: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and KEP-555.
Nothing here knows requests, stores or any validation but that by the schema.
"""

from __future__ import annotations

from typing import Any

from understudy.machinery.errors import StatusError, apply_conflict, bad_request, unknown_error
from understudy.machinery.patch.apply import last_applied, managers
from understudy.machinery.patch.apply.managed_fields import (
    NEVER_OWNED,
    Updater,
    ignore_timestamps,
    without_managed_fields,
)
from understudy.machinery.patch.apply.managers import InvalidEntry, ManagedFields, Manager, VersionedSet
from understudy.machinery.patch.apply.object_type import UnconvertibleError, are_managed_fields
from understudy.machinery.patch.apply.prune import prune
from understudy.machinery.patch.structured_merge_diff import field_set
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, intersection
from understudy.machinery.patch.structured_merge_diff.merge import merge
from understudy.machinery.patch.structured_merge_diff.to_field_set import to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.serializer.json_fast import has_empty_fields, keep_empty_fields
from understudy.machinery.types import GroupVersionKind, Obj, deep_copy, same_json, split_api_version

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"  # its server-side applies take over fields of its client-side ones


class Conflicts(Exception):  # noqa: N818  # what is in the way, not a fault
    """Fields that other managers own with another value, by manager (upstream: `merge.Conflicts`)."""

    def __init__(self, fields: dict[Manager, Set]) -> None:
        super().__init__(fields)
        self.fields = fields

    def status(self) -> StatusError:
        """Return the 409, with one cause per field."""
        causes, lines = [], []
        for manager in sorted(self.fields, key=Manager.identity):
            lines.append(f"conflicts with {manager.text()}:")
            for path in field_set.iterate(self.fields[manager]):
                text = field_set.path_text(path)
                lines.append(f"- {text}")
                message = f"conflict with {manager.text()}"
                causes.append({"reason": "FieldManagerConflict", "message": message, "field": text})
        if len(causes) == 1:
            summary = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            summary = f"{len(causes)} conflicts: " + "\n".join(lines)
        return apply_conflict(f"Apply failed with {summary}", causes)


def check_type(patch: Obj, expected_kind: str, api_version: str) -> None:
    """Raise StatusError 400 unless the patch names the kind and API version of the request."""
    sent_version, kind = patch.get("apiVersion"), patch.get("kind")
    sent_version = sent_version if isinstance(sent_version, str) else ""
    kind = kind if isinstance(kind, str) else ""
    if sent_version.count("/") > 1:
        sent_version = kind = ""
    gvk = GroupVersionKind(*split_api_version(sent_version), kind)
    if gvk != GroupVersionKind(*split_api_version(api_version), expected_kind):
        raise bad_request(f"invalid object type: {_type_text(gvk)}")


def _type_text(gvk: GroupVersionKind) -> str:
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"


class ApplyRequest:
    """One application of a patch by one manager."""

    def __init__(self, updater: Updater, patch: Obj, manager: str, subresource: str, now: str) -> None:
        self.updater = updater
        self.patch = patch
        self.manager = managers.apply_manager(manager, subresource)
        self.now = now
        self.kind = updater.type.merge_type
        self.type_text = _type_text(GroupVersionKind(*split_api_version(updater.api_version), updater.type.kind))

    def run(self, live: Obj | None, force: bool) -> Obj:
        """Return the new object with its managed fields, or `live` if nothing changes. Raises StatusError."""
        check_type(self.patch, self.updater.type.kind, self.updater.api_version)
        current = live if live is not None else deep_copy(self.updater.type.empty(self.updater.api_version))
        try:
            managed = managers.decode(current["metadata"].get("managedFields"))
        except InvalidEntry as error:
            raise unknown_error(f"failed to decode managed fields: {error}") from None
        start = without_managed_fields(current)
        try:
            new, after = self._apply_or_take_over(start, self._with_first_owner(live, managed), force)
        except Conflicts as conflicts:
            raise conflicts.status() from None
        except UnconvertibleError as error:
            raise unknown_error(str(error)) from None
        new = self._with_annotation(new)
        entries = managers.encode(after)
        if entries:
            metadata = keep_empty_fields(new["metadata"], {**new["metadata"], "managedFields": entries})
            new = keep_empty_fields(new, {**new, "metadata": metadata})
        if live is None or (same := ignore_timestamps(live, new)) != live:
            return new
        # Go tells an empty list from none until it stores them, so the rules for updates look at it.
        return keep_empty_fields(new, same) if has_empty_fields(new) else live

    def _with_first_owner(self, live: Obj | None, managed: ManagedFields) -> ManagedFields:
        """Return the owners, and let `before-first-apply` own all fields of an object that has none."""
        if managed or live is None:
            return managed
        before = managers.update_manager(BEFORE_FIRST_APPLY, self.updater.api_version, self.manager.subresource)
        try:
            self.updater.type.check_stored(without_managed_fields(live))
            return self.updater.update(None, live, {}, before, self.now)
        except InvalidValue:
            what = "failed to create manager for existing fields: failed to convert new object ({}) to smd typed"
            raise self._live_error(what, live) from None

    def _live_error(self, what: str, live: Obj) -> StatusError:
        """Return the error of a stored object that does not fit the schema, as not all validation asks it to. `what`
        has a place for the name of the object."""
        try:
            validate(self.kind, without_managed_fields(live), allows_duplicates=True)
        except InvalidValue as error:
            return unknown_error(f"{what.format(self._object_text(live))}: {error}")
        raise AssertionError("a stored object that cannot be merged fits its schema")

    def _apply_or_take_over(self, live: Obj, managed: ManagedFields, force: bool) -> tuple[Obj, ManagedFields]:
        """Apply the patch. kubectl may take over, without conflicts, the fields that it last applied on the client's
        side."""
        try:
            return self.apply(live, managed, force)
        except Conflicts as conflicts:
            if self.manager.name != KUBECTL:
                raise
            allowed = last_applied.allowed_conflicts(live, self.updater.api_version, self.kind)
            if allowed is None:
                raise
            remaining = {manager: difference(fields, allowed) for manager, fields in conflicts.fields.items()}
            if any(remaining.values()):
                raise Conflicts({manager: fields for manager, fields in remaining.items() if fields}) from None
            return self.apply(live, managed, True)

    def apply(self, live: Obj, managed: ManagedFields, force: bool) -> tuple[Obj, ManagedFields]:
        """Return the new object without managed fields, or `live` itself if nothing changes, and the owners. Raises
        Conflicts.

        Upstream: `merge.Updater.Apply`.
        """
        self._check_patch()
        try:
            self.updater.type.check_stored(live)
            new = merge(self.kind, live, self.patch)
        except InvalidValue:
            raise self._live_error("failed to create typed live object ({})", live) from None
        managed = self.updater.reconcile(live, managed)
        previous = managed.get(self.manager)
        sent_fields = to_field_set(self.kind, self.patch)
        applied_fields = self.updater.without_reset_fields(sent_fields, self.updater.api_version)
        own = VersionedSet(applied_fields, self.updater.api_version, previous.time if previous else "")
        new = prune(self.updater, new, {**managed, self.manager: own}, own, previous)
        after = self._update_others(live, new, {m: owned for m, owned in managed.items() if m != self.manager}, force)
        unchanged = same_json(live, new)
        own = own.with_fields(difference(applied_fields, NEVER_OWNED))
        if own.fields:
            time = own.time if unchanged else self.now
            after[self.manager] = VersionedSet(own.fields, own.api_version, time)
        return (live if unchanged else self._to_canonical(new)), after

    def _check_patch(self) -> None:
        """Raise StatusError for a patch with managedFields (400) or one that does not fit the schema (500)."""
        metadata = self.patch.get("metadata")
        if isinstance(metadata, dict) and are_managed_fields(metadata.get("managedFields"), self.updater.type.metadata):
            raise bad_request("metadata.managedFields must be nil")
        try:
            validate(self.kind, self.patch)
        except InvalidValue as error:
            raise unknown_error(
                f"failed to create typed patch object ({self._object_text(self.patch)}): {error}"
            ) from None

    def _update_others(self, live: Obj, new: Obj, others: ManagedFields, force: bool) -> ManagedFields:
        """Return the fields of the other managers after the change. Raises Conflicts for fields taken from them."""
        if not others:
            return {}
        self._check_conversions(new, {owned.api_version for owned in others.values()})
        changed, removed = self.updater.compare(live, new, self.updater.api_version) or ({}, {})
        if not force:
            conflicts = {
                m: fields
                for m, owned in others.items()
                if (fields := self._conflicting_fields(live, new, owned, changed))
            }
            if conflicts:
                raise Conflicts(conflicts)
        return self.updater.remove_from_owners(others, live, new, changed, removed)

    def _check_conversions(self, new: Obj, versions: set[str]) -> None:
        """Raise StatusError 500 unless the new object can be compared in the versions of other managers.

        Versions of another group, which events have, are passed over, as the real server does.
        """
        group = self.updater.api_version.rpartition("/")[0]
        try:
            for version in versions:
                if version.rpartition("/")[0] == group:
                    self.updater.convert(new, version)
        except InvalidValue as error:
            raise unknown_error(
                f"failed to convert new object: unable to convert unstructured object to {self.type_text}: {error}"
            ) from None

    def _conflicting_fields(self, live: Obj, new: Obj, owned: VersionedSet, changed: Set) -> Set:
        """Return the fields of another manager that the patch changes, compared in that manager's API version."""
        if owned.api_version != self.updater.api_version:
            changed = (self.updater.compare(live, new, owned.api_version) or ({}, {}))[0]
        return intersection(owned.fields, changed)

    def _to_canonical(self, new: Obj) -> Obj:
        """Return the object in canonical form; its opaque parts are encoded again. Raises StatusError 500."""
        try:
            return self.updater.type.canonical(new)
        except DecodeError as error:
            raise unknown_error(
                f"failed to convert new object ({self._object_text(self.patch)}) to proper version: "
                f"unable to convert unstructured object to {self.type_text}: {error}"
            ) from None

    def _with_annotation(self, new: Obj) -> Obj:
        """Return the object with kubectl's last-applied annotation up to date, if it has one."""
        if self.manager.name != KUBECTL:
            return new
        return last_applied.with_updated_annotation(new, self.patch)

    def _object_text(self, obj: Obj) -> str:
        """Return namespace, name and type of the patch or of the stored object, as errors print them."""
        metadata: Any = obj.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        names = (metadata.get("namespace"), metadata.get("name"))
        return "/".join(name if isinstance(name, str) else "" for name in names) + f"; {self.type_text}"
