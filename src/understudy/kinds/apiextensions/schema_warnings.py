"""Warnings about the schemas of custom resources: formats that the release does not know (since 1.34), and sets of
objects or lists (since 1.37)."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.apiextensions import schemas
from understudy.kinds.apiextensions.structural_schema import formats
from understudy.kinds.apiextensions.versions import schema_of
from understudy.kinds.context import Context
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_34, V1_37, Version
from understudy.machinery.types import Obj

_SET = "x-kubernetes-list-type: set for items of type {} is not supported by server-side apply or CEL validation rules"


def warn_create(definition: Obj, ctx: Context) -> None:
    """Warn of what is unusual in the schemas of a new definition."""
    warn_update(definition, {"spec": {}}, ctx)


def warn_update(definition: Obj, old: Obj, ctx: Context) -> None:
    """Warn of what is unusual in the schemas of a definition and was not there before."""
    if ctx.release >= V1_34:
        before = _unrecognized(old, ctx.release)
        for name in _unrecognized(definition, ctx.release):
            if name not in before:
                ctx.warn(f"unrecognized format {go_quote(name)}")
    if ctx.release >= V1_37:
        for kind in sorted(_set_items(definition) - _set_items(old)):
            ctx.warn(_SET.format(go_quote(kind)))


def _schemas(definition: Obj) -> Iterator[Obj]:
    """Yield every schema of a definition, nested ones too."""
    for version in definition["spec"].get("versions") or ():
        if (root := schema_of(version, "schema")) is not None:
            yield from schemas.within(root)


def _unrecognized(definition: Obj, version: Version) -> list[str]:
    """Return the formats in the schemas of a definition that the release does not know."""
    return [schema["format"] for schema in _schemas(definition) if formats.unrecognized(schema, version)]


def _set_items(definition: Obj) -> set[str]:
    """Return the types of the items of all lists that are sets, where they are objects or lists themselves."""
    sets = [schema for schema in _schemas(definition) if schema.get("x-kubernetes-list-type") == "set"]
    items = [schema.get("items") for schema in sets]
    return {each.get("type", "") for each in items if isinstance(each, dict)} & {"object", "array"}
