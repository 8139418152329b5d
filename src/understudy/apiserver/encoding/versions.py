"""The API versions in which the objects of a kind are served: conversion and defaults between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from understudy.apiserver.encoding.conversion import bare, from_internal, to_internal, typed
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.patch.apply.object_type import UnconvertibleError
from understudy.machinery.types import Obj


class Versions:
    """Converts objects between the API versions of their kind, `kinds` being the built-in ones that are served."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = tuple(kinds)
        self._of: dict[Kind, dict[str, tuple[Kind, str]]] = {}

    def convert(self, kind: Kind, obj: Obj, source: str, target: str) -> Obj | None:
        """Convert an object of a kind from one apiVersion to another. Returns None if one of them is not served.

        Raises UnconvertibleError for a webhook that does not convert it.
        """
        if source == target:
            return obj
        if kind.custom is not None:
            try:
                return kind.custom.convert(obj, target)
            except StatusError as error:
                raise UnconvertibleError(error.message) from None
        versions = self._versions(kind)
        if source not in versions or target not in versions:
            return None
        (from_kind, from_version), (to_kind, to_version) = versions[source], versions[target]
        return from_internal(to_kind, to_version, to_internal(from_kind, from_version, obj))

    def defaulted(self, kind: Kind, version: str, obj: Obj, api_version: str, ctx: Context) -> Obj:
        """Set the defaults of an object's own apiVersion, and return it in another version of its kind."""
        if kind.custom is not None:
            return obj
        own_kind, own_version = self._versions(kind).get(api_version, (kind, version))
        obj = typed(own_kind, own_version, bare(obj))
        own_kind.behavior.defaults(obj, ctx if own_version == ctx.version else replace(ctx, version=own_version))
        if (own_kind, own_version) == (kind, version):
            return obj
        return from_internal(kind, version, to_internal(own_kind, own_version, obj))

    def _versions(self, kind: Kind) -> dict[str, tuple[Kind, str]]:
        """Return the kinds and versions that serve the objects stored as this kind, by apiVersion.

        Events are served in two groups.
        """
        versions = self._of.get(kind)
        if versions is None:
            same = [k for k in self._kinds if k.stored == kind.stored]
            versions = self._of[kind] = {k.gvk(v).api_version: (k, v) for k in same for v in k.versions}
        return versions
