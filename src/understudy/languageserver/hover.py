"""Hover: what the field, the kind or the version means that somebody points at."""

from __future__ import annotations

from understudy.apiserver.endpoints.responsewriters import deprecation
from understudy.apiserver.serving.release import Release
from understudy.languageserver.descriptions import explained, explained_kind, releases_with, since
from understudy.languageserver.outline import Entry
from understudy.languageserver.parts import parts_of
from understudy.languageserver.place import entry_at, schema_at
from understudy.languageserver.schema import Schemas
from understudy.machinery.types import GroupVersionKind, NamedTuple, split_api_version


class Hover(NamedTuple):
    """A description in Markdown, and the offsets of what it describes."""

    start: int
    end: int
    text: str


def hover(text: str, offset: int, schemas: Schemas) -> Hover | None:
    """Return the description of what is at an offset of a text, None if there is none."""
    part = next(part for part in reversed(parts_of(text)) if part.offset <= offset)
    entry = entry_at(part.text, offset - part.offset)
    about = _about(entry, schemas) if entry else ""
    if entry is None or not about:
        return None
    is_key = entry.start <= offset - part.offset <= entry.end
    start, end = (entry.start, entry.end) if is_key else (entry.text_start, entry.text_end)
    return Hover(start + part.offset, end + part.offset, about)


def _about(entry: Entry, schemas: Schemas) -> str:
    parent = entry.parent
    assert parent is not None
    above, obj = schema_at(parent, schemas)
    gvk = GroupVersionKind(*split_api_version(obj.text_of("apiVersion")), obj.text_of("kind"))
    kind = schemas.serving.kind_in(*gvk)
    if parent is obj and above is not None and kind is not None and entry.step == "kind":
        warning = deprecation.warning(gvk, schemas.serving.release)
        return explained_kind(gvk, above, is_custom=kind.custom is not None, deprecation=warning)
    if parent is obj and entry.step == "apiVersion" and (served := _served(gvk, schemas)):
        return served
    field, _ = schema_at(entry, schemas)
    name = str(entry.step)
    if field is None or above is None:
        return ""
    releases = since(gvk, above.name, name) if kind and kind.custom is None and above.name else ""
    return explained(name, field, is_required=name in above.required, since=releases)


def _served(gvk: GroupVersionKind, schemas: Schemas) -> str:
    """Return the releases that serve a group-version, and its kinds; "" for an unknown one."""
    group = schemas.serving.group(gvk.group)
    if group is None or gvk.version not in group.versions:
        return ""
    versions = releases_with(lambda version: Release.of(version).serves(gvk.group, gvk.version))
    kinds = ", ".join(kind.name for kind in group.versions[gvk.version])
    served = f"Served in Kubernetes {versions}" if versions else "Custom resources"
    return f"**{gvk.api_version}**\n\n{served}: {kinds}"
