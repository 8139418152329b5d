"""The entries of metadata.managedFields, decoded: one set of fields per manager.

An entry stands for a manager: its name, its operation (Apply or Update), its subresource and, for updates, its API
version; entries with the same values are one. Entries are replaced, never edited. One that has not changed is written
back as the object it was read from.
"""

from __future__ import annotations

from typing import Any

import orjson

from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.structured_merge_diff.field_set import FieldSetError, Set, from_json, sorted_set
from understudy.machinery.types import NamedTuple, Obj

APPLY, UPDATE = "Apply", "Update"


class Manager(NamedTuple):
    """A field manager (upstream: `BuildManagerIdentifier`). `api_version` is "" for those who apply."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def text(self) -> str:
        """Return the manager as conflicts name it."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    def identity(self) -> bytes:
        """Return the JSON that managers are sorted by (upstream: the manager identifier)."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return orjson.dumps({name: value for name, value in zip(names, self, strict=True) if value})


class VersionedSet(NamedTuple):
    """The fields that a manager owns, in the form of an API version (upstream: `fieldpath.VersionedSet`).

    `time` is RFC 3339 or "". `source` is the entry that it was read from, as long as nothing has changed.
    """

    fields: Set
    api_version: str
    time: str
    source: Obj | None = None

    def with_fields(self, fields: Set) -> VersionedSet:
        """Return the set with other fields; itself if they are the same object."""
        return self if fields is self.fields else VersionedSet(fields, self.api_version, self.time)

    def at(self, time: str) -> VersionedSet:
        """Return the set at another time; its entry, if that has a time, is the same but for that."""
        source = {**self.source, "time": time} if self.source and self.time and time else None
        return VersionedSet(self.fields, self.api_version, time, source)


ManagedFields = dict[Manager, VersionedSet]


class InvalidEntry(ValueError):  # noqa: N818  # its text is part of other errors
    """An entry that cannot be decoded; its text is part of other errors."""


def apply_manager(name: str, subresource: str) -> Manager:
    """Return a manager that applies."""
    return Manager(name or "unknown", APPLY, "", subresource)


def update_manager(name: str, api_version: str, subresource: str) -> Manager:
    """Return a manager that creates, updates or patches."""
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def decode(entries: list[Obj] | None, trusted: bool = False) -> ManagedFields:
    """Decode entries into owners. `trusted`: they were made by `encode`. Raises InvalidEntry."""
    out: ManagedFields = {}
    for index, entry in enumerate(entries or ()):
        operation = entry.get("operation", "")
        api_version = entry.get("apiVersion", "")
        fields = entry.get("fieldsV1")
        if not trusted:
            fields = _decode_fields(entry, index)
        manager = Manager(
            entry.get("manager", ""),
            operation,
            api_version if operation == UPDATE else "",
            entry.get("subresource", ""),
        )
        out[manager] = VersionedSet(fields or {}, api_version, entry.get("time") or "", entry if trusted else None)
    return out


def _decode_fields(entry: Obj, index: int) -> Set:
    """Check an entry and return its fields. Raises InvalidEntry."""
    if entry.get("operation", "") not in (APPLY, UPDATE):
        raise InvalidEntry("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise InvalidEntry("apiVersion must not be empty")
    kind = entry.get("fieldsType", "")
    if not kind:
        raise InvalidEntry(f"missing fieldsType in managed fields entry {index}")
    if kind != "FieldsV1":
        raise InvalidEntry(f'invalid fieldsType "{kind}" in managed fields entry {index}')
    fields: Any = entry.get("fieldsV1")
    try:
        return {key: node for key, node in from_json({} if fields is None else fields).items() if key != "."}
    except FieldSetError as error:
        raise InvalidEntry(str(error)) from None


def encode(owners: ManagedFields) -> list[Obj]:
    """Encode owners as entries: those who apply first, then by time, name, version and subresource."""
    entries = [owned.source or _encode_entry(manager, owned) for manager, owned in owners.items()]
    if len(entries) > 1:
        entries.sort(key=_sort_key)
    return entries


def _sort_key(entry: Obj) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time", ""),
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _encode_entry(manager: Manager, owned: VersionedSet) -> Obj:
    entry: Obj = {"manager": manager.name} if manager.name else {}
    entry["operation"] = manager.operation
    entry["apiVersion"] = owned.api_version
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = sorted_set(owned.fields)
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry
