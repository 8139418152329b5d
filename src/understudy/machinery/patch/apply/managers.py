"""The entries of metadata.managedFields, decoded: one set of fields per manager.

An entry stands for a manager, by its name, its operation (Apply or Update), its subresource and, for updates, its API
version; two entries of the same are one. Entries are values: they are replaced, never edited. One that has not changed
is written back as the object it was read from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.structured_merge_diff.field_set import FieldSetError, Set, from_json, sorted_set
from understudy.machinery.types import Obj

APPLY, UPDATE = "Apply", "Update"


class Manager(NamedTuple):
    """Who owns fields. `api_version` is "" for those who apply."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def text(self) -> str:
        """As conflicts name it."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    def identity(self) -> bytes:
        """What managers are sorted by."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return orjson.dumps({name: value for name, value in zip(names, self, strict=True) if value})


@dataclass(frozen=True, slots=True)
class VersionedSet:
    """What a manager owns, in the form of an API version. `time` is RFC 3339 or "". `source`: the entry that it was,
    as long as nothing has changed."""

    fields: Set
    api_version: str
    time: str
    source: Obj | None = None

    def with_fields(self, fields: Set) -> VersionedSet:
        return self if fields is self.fields else VersionedSet(fields, self.api_version, self.time)


ManagedFields = dict[Manager, VersionedSet]


class InvalidEntry(ValueError):  # noqa: N818  # its text stands in other errors
    """An entry that cannot be read."""


def apply_manager(name: str, subresource: str) -> Manager:
    return Manager(name or "unknown", APPLY, "", subresource)


def update_manager(name: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def decode(entries: list[Obj] | None, trusted: bool = False) -> ManagedFields:
    """The owners in `entries`. `trusted`: they are as `encode` made them. Raises InvalidEntry."""
    out: ManagedFields = {}
    for index, entry in enumerate(entries or ()):
        operation = entry.get("operation", "")
        api_version = entry.get("apiVersion", "")
        fields = entry.get("fieldsV1")
        if not trusted:
            fields = _checked(entry, index)
        manager = Manager(
            entry.get("manager", ""),
            operation,
            api_version if operation == UPDATE else "",
            entry.get("subresource", ""),
        )
        out[manager] = VersionedSet(fields or {}, api_version, entry.get("time") or "", entry if trusted else None)
    return out


def _checked(entry: Obj, index: int) -> Set:
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
    except FieldSetError as why:
        raise InvalidEntry(str(why)) from None


def encode(owners: ManagedFields) -> list[Obj]:
    """The entries: those who apply first, then by time, name, version and subresource."""
    entries = [owned.source or _entry(manager, owned) for manager, owned in owners.items()]
    if len(entries) > 1:
        entries.sort(key=_place)
    return entries


def _place(entry: Obj) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time", ""),
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _entry(manager: Manager, owned: VersionedSet) -> Obj:
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
