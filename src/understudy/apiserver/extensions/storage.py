"""How objects of custom resources are stored: in the storage version of their definition, as JSON keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.apiserver.extensions.schemas import Schemas
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.golang.json_writer import go_number
from understudy.machinery.types import Obj, split_api_version


class Storage:
    """Stores objects of one version of a definition, and reads what any version has stored.

    Versions differ in their apiVersion only (`conversion.strategy: None`), so nothing has to wait for a webhook.
    """

    def __init__(self, schemas: Schemas, version: str) -> None:
        self._schemas = schemas
        self._version = version

    async def store(self, obj: Obj) -> Obj:
        """Return an object as it is stored: in the storage version, with numbers as JSON keeps them."""
        version = self._schemas.definition.storage_version
        stored: Obj = _as_json(self._in_version(obj, version))
        return stored

    async def prepare(self, entries: Sequence[Entry]) -> None:
        """Do nothing: `load` converts objects by itself."""

    def load(self, obj: Obj) -> Obj:
        """Return a stored object in the version of the kind, with the defaults of the version that it is stored in."""
        _, stored_version = split_api_version(obj["apiVersion"])
        schema = self._schemas.of(stored_version)
        return self._in_version(schema.default(schema.coerce(obj, stored=True)), self._version)

    def convert(self, obj: Obj, api_version: str) -> Obj | None:
        """Return an object in another version of the definition, None for a version that it does not have."""
        group, version = split_api_version(api_version)
        definition = self._schemas.definition
        if group != definition.group or version not in definition.versions:
            return None
        return {**obj, "apiVersion": api_version}

    def _in_version(self, obj: Obj, version: str) -> Obj:
        api_version = self._schemas.definition.api_version(version)
        if obj["apiVersion"] == api_version:
            return obj
        return self._schemas.of(version).coerce({**obj, "apiVersion": api_version})


def _as_json(value: Any) -> Any:
    """Return a value with its numbers as they are read again: 1.0 is 1. Parts without such numbers are shared."""
    if isinstance(value, dict):
        changed = {k: new for k, v in value.items() if type(v) in _NESTED and (new := _as_json(v)) is not v}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        items = [_as_json(item) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return go_number(value) if type(value) is float else value


_NESTED = (dict, list, float)
