"""Server-side apply: a manager states all the fields that it wants, and owns those.

    new = apply(live, patch, struct=…, api_version="v1", manager="kubectl", force=False, …)

What others own with another value is a conflict (409, one cause per field) unless the manager forces it; what it no
longer states and nobody else owns is removed; several managers may own a field while they agree on its value. Rules:
https://kubernetes.io/docs/reference/using-api/server-side-apply/ and KEP-555. Nothing here knows of requests, stores or
validation beyond the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.machinery.errors import StatusError, apply_conflict, bad_request, unknown_error
from understudy.machinery.golang.json_writer import encode_sorted, rewrite_raw
from understudy.machinery.patch import unstructured
from understudy.machinery.patch.apply import last_applied, managers
from understudy.machinery.patch.apply.apply_body import Patch, parse
from understudy.machinery.patch.apply.managed_fields import (
    NEVER_OWNED,
    Convert,
    Paths,
    Updater,
    ignore_timestamps,
    new_empty_object,
    without_managed_fields,
)
from understudy.machinery.patch.apply.managers import InvalidEntry, ManagedFields, Manager, VersionedSet
from understudy.machinery.patch.apply.prune import prune
from understudy.machinery.patch.structured_merge_diff import field_set
from understudy.machinery.patch.structured_merge_diff.field_set import Set, difference, intersection
from understudy.machinery.patch.structured_merge_diff.merge import merge
from understudy.machinery.patch.structured_merge_diff.to_field_set import to_field_set
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, equals, type_of
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.schema import List, Struct
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"  # whose applies take over from its own client-side ones


class Conflicts(Exception):  # noqa: N818  # what is in the way, not a fault
    """Fields that others own with another value."""

    def __init__(self, fields: dict[Manager, Set]) -> None:
        super().__init__(fields)
        self.fields = fields

    def status(self) -> StatusError:
        """The 409, one cause per field."""
        causes, lines = [], []
        for manager in sorted(self.fields, key=Manager.identity):
            lines.append(f"conflicts with {manager.text()}:")
            for path in field_set.iterate(self.fields[manager]):
                text = field_set.path_text(path)
                lines.append(f"- {text}")
                message = f"conflict with {manager.text()}"
                causes.append({"reason": "FieldManagerConflict", "message": message, "field": text})
        if len(causes) == 1:
            said = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            said = f"{len(causes)} conflicts: " + "\n".join(lines)
        return apply_conflict(f"Apply failed with {said}", causes)


def apply(
    live: Obj | None,
    patch: Obj,
    *,
    struct: Struct,
    api_version: str,
    manager: str,
    force: bool,
    subresource: str,
    now: str,
    reset: Paths,
    convert: Convert,
    duplicates: Sequence[str] = (),
) -> Obj:
    """The new object in the form of `api_version`, complete, with its managed fields; `live` itself if it is as it was.
    `live` is None where the object is created. `duplicates` are keys of the patch's text that strict field validation
    refuses: it does so only if the rest goes well.

    Raises StatusError: 409 for conflicts; 400 for a patch of another type, or with managedFields; 500 (without a
    reason) for one that does not fit the schema."""
    _check_type(patch, struct, api_version)
    request = ApplyRequest(Updater(struct, api_version, reset, convert), patch, manager, subresource, now)
    new = request.run(live, force)
    if duplicates:
        lines = "\n  ".join(duplicates)
        raise bad_request(
            f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
        )
    return new


def _check_type(patch: Obj, struct: Struct, api_version: str) -> None:
    """The patch must say that it is of the request's type."""
    sent, kind = patch.get("apiVersion"), patch.get("kind")
    sent = sent if isinstance(sent, str) else ""
    kind = kind if isinstance(kind, str) else ""
    if sent.count("/") > 1:
        sent = kind = ""
    gvk = GroupVersionKind(*split_api_version(sent), kind)
    if gvk != GroupVersionKind(*split_api_version(api_version), struct.type_name):
        raise bad_request(f"invalid object type: {_type_text(gvk)}")


def _are_entries(sent: Any, struct: Struct) -> bool:
    """Whether managed fields can be read; what cannot is left to the schema."""
    if not isinstance(sent, list):
        return False
    metadata = struct.fields["metadata"].type
    assert isinstance(metadata, Struct)
    entries = metadata.fields["managedFields"].type
    assert isinstance(entries, List)
    assert isinstance(entries.element, Struct)
    try:
        for entry in sent:
            unstructured.from_unstructured(entry, entries.element)
    except DecodeError:
        return False
    return True


def _type_text(gvk: GroupVersionKind) -> str:
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}"


class ApplyRequest:
    """One application of a patch."""

    def __init__(self, update: Updater, patch: Obj, manager: str, subresource: str, now: str) -> None:
        self.update = update
        self.patch = patch
        self.manager = managers.apply_manager(manager, subresource)
        self.now = now
        self.kind = type_of(update.struct)
        self.type_text = _type_text(GroupVersionKind(*split_api_version(update.api_version), update.struct.type_name))

    def run(self, live: Obj | None, force: bool) -> Obj:
        current = live if live is not None else new_empty_object(self.update.struct, self.update.api_version)
        try:
            known = managers.decode(current["metadata"].get("managedFields"))
        except InvalidEntry as why:
            raise unknown_error(f"failed to decode managed fields: {why}") from None
        start = without_managed_fields(current)
        try:
            new, after = self._applied_or_taken_over(start, self._tracked(live, known), force)
        except Conflicts as conflicts:
            raise conflicts.status() from None
        new = self._with_annotation(new)
        entries = managers.encode(after)
        if entries:
            new = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
        return live if live is not None and ignore_timestamps(live, new) == live else new

    def _tracked(self, live: Obj | None, known: ManagedFields) -> ManagedFields:
        """What is there before the first apply belongs to a manager of that name."""
        if known or live is None:
            return known
        before = managers.update_manager(BEFORE_FIRST_APPLY, self.update.api_version, self.manager.subresource)
        try:
            return self.update.owners(None, live, {}, before, self.now)
        except InvalidValue as why:
            raise unknown_error(f"failed to create manager for existing fields: {why}") from None

    def _applied_or_taken_over(self, live: Obj, known: ManagedFields, force: bool) -> tuple[Obj, ManagedFields]:
        """kubectl has no conflicts over what it last applied on the client's side."""
        try:
            return self.applied(live, known, force)
        except Conflicts as conflicts:
            if self.manager.name != KUBECTL:
                raise
            allowed = last_applied.allowed_conflicts(live, self.update.api_version, self.kind)
            if allowed is None:
                raise
            left = {manager: difference(fields, allowed) for manager, fields in conflicts.fields.items()}
            if any(left.values()):
                raise Conflicts({manager: fields for manager, fields in left.items() if fields}) from None
            return self.applied(live, known, True)

    def applied(self, live: Obj, known: ManagedFields, force: bool) -> tuple[Obj, ManagedFields]:
        """The new object without managed fields, `live` itself if nothing changes, and the owners. Raises Conflicts."""
        self._check_patch()
        known = self.update.reconciled(live, known)
        last = known.get(self.manager)
        wanted = self.update.kept(to_field_set(self.kind, self.patch))
        mine = VersionedSet(wanted, self.update.api_version, last.time if last else "")
        new = merge(self.kind, live, self.patch)
        new = prune(self.update, new, {**known, self.manager: mine}, mine, last)
        after = self._take(live, new, {m: owned for m, owned in known.items() if m != self.manager}, force)
        unchanged = equals(live, new)
        mine = mine.with_fields(difference(wanted, NEVER_OWNED))
        if mine.fields:
            time = mine.time if unchanged else self.now
            after[self.manager] = VersionedSet(mine.fields, mine.api_version, time)
        return (live if unchanged else self._decoded(new)), after

    def _check_patch(self) -> None:
        metadata = self.patch.get("metadata")
        if isinstance(metadata, dict) and _are_entries(metadata.get("managedFields"), self.update.struct):
            raise bad_request("metadata.managedFields must be nil")
        try:
            validate(self.kind, self.patch)
        except InvalidValue as why:
            raise unknown_error(f"failed to create typed patch object ({self._named()}): {why}") from None

    def _take(self, live: Obj, new: Obj, others: ManagedFields, force: bool) -> ManagedFields:
        """The owners among the others after the change. Raises Conflicts for what would be taken from them."""
        changed, removed = self.update.changes(live, new, self.update.api_version) or ({}, {})
        if not force:
            conflicts = {m: fields for m, owned in others.items() if (fields := self._taken(live, new, owned, changed))}
            if conflicts:
                raise Conflicts(conflicts)
        return self.update.without(others, live, new, changed, removed)

    def _taken(self, live: Obj, new: Obj, owned: VersionedSet, changed: Set) -> Set:
        if owned.api_version != self.update.api_version:
            changed = (self.update.changes(live, new, owned.api_version) or ({}, {}))[0]
        return intersection(owned.fields, changed)

    def _decoded(self, new: Obj) -> Obj:
        """The object in its canonical form, as converting it gives: opaque parts are spelt anew."""
        try:
            obj, _ = unstructured.from_unstructured(new, self.update.struct)
        except DecodeError as why:
            raise unknown_error(
                f"failed to convert new object ({self._named()}) to proper version: "
                f"unable to convert unstructured object to {self.type_text}: {why}"
            ) from None
        spelt: Obj = rewrite_raw(obj, encode_sorted) if self.update.struct.has_raw_extension else obj
        return spelt

    def _with_annotation(self, new: Obj) -> Obj:
        """kubectl's own record of what it last applied is kept up, as long as there is one."""
        if self.manager.name != KUBECTL:
            return new
        return last_applied.with_updated_annotation(new, self.patch)

    def _named(self) -> str:
        """The patch's namespace, name and type, as errors name it."""
        metadata: Any = self.patch.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        names = (metadata.get("namespace"), metadata.get("name"))
        return "/".join(name if isinstance(name, str) else "" for name in names) + f"; {self.type_text}"


__all__ = ["Conflicts", "Patch", "apply", "parse"]
