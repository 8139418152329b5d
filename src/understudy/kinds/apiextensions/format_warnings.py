"""Warnings about formats in the schemas of custom resources that the release does not know (since 1.34)."""

from __future__ import annotations

from understudy.kinds.apiextensions import schemas
from understudy.kinds.apiextensions.structural_schema import formats
from understudy.kinds.apiextensions.versions import schema_of
from understudy.kinds.context import Context
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj

_WARNS = ByRelease({V1_34: True, V1_31: False})


def warn_create(definition: Obj, ctx: Context) -> None:
    """Warn of unknown formats in a new definition."""
    warn_update(definition, {"spec": {}}, ctx)


def warn_update(definition: Obj, old: Obj, ctx: Context) -> None:
    """Warn of unknown formats that the old definition did not have."""
    if not _WARNS[ctx.release]:
        return
    before = _unrecognized(old, ctx.release)
    for name in _unrecognized(definition, ctx.release):
        if name not in before:
            ctx.warn(f"unrecognized format {go_quote(name)}")


def _unrecognized(definition: Obj, version: Version) -> list[str]:
    """Return the formats in the schemas of a definition that the release does not know."""
    versions = definition["spec"].get("versions") or ()
    roots = [schema for each in versions if (schema := schema_of(each, "schema")) is not None]
    return [
        schema["format"] for root in roots for schema in schemas.within(root) if formats.unrecognized(schema, version)
    ]
