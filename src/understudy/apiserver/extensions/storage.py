"""Stores objects of custom resources in the storage version of their definition, as JSON or CBOR keep them."""

from __future__ import annotations

from understudy.apiserver.extensions.conversion import Converter
from understudy.apiserver.extensions.schemas import Schemas
from understudy.kinds.declarations.watch_cache import WatchCache
from understudy.machinery.golang.json_writer import as_read_again, with_go_floats
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version


class Storage:
    """Stores objects of one version of a definition, and reads what any version has stored.

    keeps_floats  whether they are stored in a form that tells 1.0 from 1, as CBOR does
    """

    def __init__(self, schemas: Schemas, version: str, converter: Converter, *, keeps_floats: bool = False) -> None:
        self._numbers = with_go_floats if keeps_floats else as_read_again
        self._schemas = schemas
        self._version = version
        self._converter = converter
        definition = schemas.definition
        kind = GroupVersionKind(definition.group, version, definition.kind)
        self.cache = WatchCache(kind, schemas.version) if converter.calls_webhook else None

    @property
    def calls_webhook(self) -> bool:
        """Report whether a webhook converts objects between the versions of the definition."""
        return self._converter.calls_webhook

    def store(self, obj: Obj) -> Obj:
        """Return an object as it is stored: in the storage version, with numbers as its form keeps them. A webhook does
        not see its resourceVersion."""
        version = self._schemas.definition.storage_version
        out = self._in_version(_without_version(obj) if self.calls_webhook else obj, version)
        changed = {k: new for k, v in out.items() if k != "metadata" and (new := self._numbers(v)) is not v}
        return {**out, **changed} if changed else out

    def load_new(self, stored: Obj) -> Obj | None:
        """Return an object that was decoded in the version of the kind, as it is read from the store, if that is sure
        without reading it: it is as it was stored, with the defaults of what was dropped from it."""
        schema = self._schemas.of(self._version)
        is_sure = self._schemas.definition.storage_version == self._version and schema.reads_as_decoded
        return schema.default(stored) if is_sure else None

    def load(self, obj: Obj) -> Obj:
        """Return a stored object in the version of the kind, with the defaults of the version that it is stored in. A
        webhook does not see its resourceVersion."""
        defaulted = self._defaulted(obj)
        if not self.calls_webhook:
            return self._in_version(defaulted, self._version)
        return _with_version(self._in_version(_without_version(defaulted), self._version), obj)

    def _defaulted(self, obj: Obj) -> Obj:
        _, stored_version = split_api_version(obj["apiVersion"])
        schema = self._schemas.of(stored_version)
        return schema.default(schema.coerce(obj, stored=True))

    def convert(self, obj: Obj, api_version: str) -> Obj | None:
        """Return an object in another version of the definition, None for a version that it does not have."""
        group, version = split_api_version(api_version)
        definition = self._schemas.definition
        if group != definition.group or version not in definition.versions:
            return None
        return dict(obj) if obj["apiVersion"] == api_version else self._converter.convert(obj, api_version)

    def _in_version(self, obj: Obj, version: str) -> Obj:
        """Return an object in a version, with the fields that it has. One that is in it already stays as it is."""
        api_version = self._schemas.definition.api_version(version)
        if obj["apiVersion"] == api_version:
            return obj
        return self._schemas.of(version).coerce(self._converter.convert(obj, api_version))


def _without_version(obj: Obj) -> Obj:
    """Return an object without its resourceVersion."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _with_version(obj: Obj, stored: Obj) -> Obj:
    """Return an object with the resourceVersion that a stored one has, if it has one."""
    version = stored["metadata"].get("resourceVersion")
    return obj if version is None else {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
