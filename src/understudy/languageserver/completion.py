"""Completion: the names and values that may stand where somebody types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.languageserver.descriptions import explained
from understudy.languageserver.outline import Entry
from understudy.languageserver.parts import parts_of
from understudy.languageserver.place import Typed, schema_at, typed_at
from understudy.languageserver.schema import Schema, Schemas
from understudy.machinery.golang.yaml_reader import resolve
from understudy.machinery.types import NamedTuple, split_api_version

_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")  # every object has them, in this order
_LAST = "status"  # the server's


class Choice(NamedTuple):
    """Something that may be typed.

    label   its name, as it is shown
    text    what replaces the word
    is_key  whether it is the name of a field, not a value
    type    the type of the field
    about   what it means, in Markdown
    rank    the order in which it is shown
    """

    label: str
    text: str
    is_key: bool
    type: str = ""
    about: str = ""
    rank: str = ""


class Completion(NamedTuple):
    """Choices, and the offsets of the word that they replace."""

    start: int
    end: int
    choices: list[Choice]


def complete(text: str, offset: int, schemas: Schemas) -> Completion | None:
    """Return the choices for the word at an offset of a text, None where none can be typed."""
    part = next(part for part in reversed(parts_of(text)) if part.offset <= offset)
    typed = typed_at(part.text, offset - part.offset)
    if typed is None:
        return None
    choices = list(_values(typed, schemas) if typed.is_value else _keys_or_values(typed, schemas))
    return Completion(typed.start + part.offset, typed.end + part.offset, choices)


def _keys_or_values(typed: Typed, schemas: Schemas) -> Iterator[Choice]:
    """Yield the names of the fields that may stand there, or values where no field may."""
    parent = typed.entry.parent
    assert parent is not None
    schema, obj = schema_at(parent, schemas)
    dash = ""
    if schema and schema.items and not parent.is_flow and not typed.entry.is_flow:
        schema, dash = schema.items, "- "
    if schema is not None and not schema.is_object and parent is not obj:
        yield from (_value(choice, typed, dash) for choice in schema.choices)
        return
    present = set() if dash else {child.step for child in parent.children if child is not typed.entry}
    for name, field in _fields(schema, parent is obj and not dash):
        if name not in present:
            yield _key(name, field, schema, typed, dash)


def _fields(schema: Schema | None, is_object: bool) -> Iterator[tuple[str, Schema | None]]:
    """Yield the fields of an object by name; of one whose kind is unknown those that all objects have."""
    known: dict[str, Schema | None] = {**schema.properties} if schema else {}
    if is_object:
        known = {**dict.fromkeys(_OBJECT_FIELDS), **known}
    yield from known.items()


def _key(name: str, field: Schema | None, parent: Schema | None, typed: Typed, dash: str) -> Choice:
    """Return the choice of a field."""
    is_required = parent is not None and name in parent.required
    is_scalar = not (field.is_object or field.items) if field else name != "metadata"
    text = name
    if typed.entry.is_flow and not typed.quoted and _is_json(typed.entry):
        text = f'"{name}"'
    if not typed.has_colon and not typed.quoted:
        text += ": " if is_scalar or typed.entry.is_flow else ":"
    place = _OBJECT_FIELDS.index(name) if name in _OBJECT_FIELDS else 8 if name == _LAST else 4 if is_required else 6
    type_ = field.type if field else ""
    about = explained(name, field, is_required=is_required) if field else ""
    return Choice(name, dash + text, True, f"{type_} (required)" if is_required else type_, about, f"{place}{name}")


def _is_json(entry: Entry) -> bool:
    """Report whether an entry stands in a text that is braces as a whole, as JSON is."""
    return all(each.is_flow for each in entry.path)


def _values(typed: Typed, schemas: Schemas) -> Iterator[Choice]:
    """Yield the values that a field may have."""
    entry = typed.entry
    schema, _ = schema_at(entry, schemas)
    parent = entry.parent
    assert parent is not None
    _, obj = schema_at(parent, schemas)
    if parent is obj and entry.step == "apiVersion":
        yield from _api_versions(parent.text_of("kind"), typed, schemas)
    elif parent is obj and entry.step == "kind":
        yield from _kinds(parent.text_of("apiVersion"), typed, schemas)
    elif schema is not None:
        yield from (_value(choice, typed, "", schema.default) for choice in schema.choices)


def _value(value: Any, typed: Typed, dash: str, default: Any = None) -> Choice:
    """Return the choice of a value; a text that YAML reads as something else is quoted."""
    label = str(value).lower() if isinstance(value, bool) else str(value)
    text = label
    if isinstance(value, str) and not typed.quoted:
        if _is_json(typed.entry) or resolve(value)[1] != value:
            text = f'"{value}"'
    about = "The default." if default is not None and value == default else ""
    return Choice(label, dash + text, False, "", about, label)


def _api_versions(kind: str, typed: Typed, schemas: Schemas) -> Iterator[Choice]:
    """Yield the group-versions that serve a kind, or all if none does."""
    groups = schemas.serving.groups
    every = [(group, version, kinds) for group in groups for version, kinds in group.versions.items()]
    serving = [each for each in every if kind in {known.name for known in each[2]}] or every
    for number, (group, version, _) in enumerate(serving):
        name = f"{group.name}/{version}" if group.name else version
        choice = _value(name, typed, "")
        yield choice._replace(rank=f"{number:03}")


def _kinds(api_version: str, typed: Typed, schemas: Schemas) -> Iterator[Choice]:
    """Yield the kinds of a group-version that can be created, or of all if it is unknown."""
    name, version = split_api_version(api_version)
    serving = schemas.serving
    group = serving.group(name)
    versions = group.versions if group else {}
    known = {kind.name: kind for kind in versions.get(version) or serving.kinds if "create" in kind.verbs}
    if api_version == "v1":
        known["List"] = None  # type: ignore[assignment]  # objects of any kind
    for kind in sorted(known):
        schema = schemas.of(api_version, kind) if version in versions else None
        yield _value(kind, typed, "")._replace(about=schema.description if schema else "")
