"""The descriptions of fields and kinds, in Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache

from understudy.apiserver.serving.release import Release, releases
from understudy.languageserver.schema import Schema
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Schemas as RecordedSchemas
from understudy.machinery.types import GroupVersionKind


def explained(name: str, field: Schema, *, is_required: bool = False, since: str = "") -> str:
    """Return the description of a field.

    since  names the releases that have it, "" if all do
    """
    required = ", required" if is_required else ""
    lines = [f"**{name}** `{field.type}`{required}", field.description]
    if field.choices and True not in field.choices:
        lines.append("One of " + ", ".join(f"`{choice}`" for choice in field.choices))
    if field.default is not None:
        lines.append(f"Default: `{json.dumps(field.default)}`")
    if since:
        lines.append(f"In Kubernetes {since}")
    return "\n\n".join(line for line in lines if line)


def explained_kind(gvk: GroupVersionKind, schema: Schema, *, is_custom: bool, deprecation: str) -> str:
    """Return the description of a kind, with the releases that serve it."""
    lines = [f"**{gvk.kind}** `{gvk.api_version}`", schema.description, deprecation]
    if is_custom:
        lines.append("A custom resource")
    else:
        lines.append(f"Served in Kubernetes {releases_with(lambda version: serves(version, gvk)) or 'previews'}")
    return "\n\n".join(line for line in lines if line)


def serves(version: Version, gvk: GroupVersionKind) -> bool:
    """Report whether a release serves a kind in a version."""
    kind = Release.of(version).kind(gvk.group, gvk.kind)
    return kind is not None and gvk.version in kind.versions


def since(gvk: GroupVersionKind, type_name: str, field: str) -> str:
    """Return the releases in which a type of a kind has a field, "" if all that serve the kind do."""
    serving = [version for version in releases() if serves(version, gvk)]
    having = [version for version in serving if field in _fields_of(version, gvk, type_name)]
    return "" if len(having) == len(serving) else _ranges(having)


@lru_cache(256)
def _fields_of(version: Version, gvk: GroupVersionKind, type_name: str) -> frozenset[str]:
    types = RecordedSchemas.of(version).document(gvk.group, gvk.version)
    return frozenset(types.get(type_name, {}).get("properties", ()))


def releases_with(is_there: Callable[[Version], bool]) -> str:
    """Return the releases of which something is true: `1.31 to 1.33, 1.36`."""
    return _ranges([version for version in releases() if is_there(version)])


def _ranges(chosen: Sequence[Version]) -> str:
    every = releases()
    texts: list[str] = []
    runs: list[list[Version]] = []
    for version in chosen:
        if runs and every.index(version) == every.index(runs[-1][-1]) + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    for run in runs:
        is_newest = run[-1] == every[-1]
        if len(run) == 1:
            texts.append(str(run[0]))
        else:
            texts.append(f"{run[0]} {'and later' if is_newest else f'to {run[-1]}'}")
    return ", ".join(texts)
