"""The schemas of a definition's versions, compiled when they are first needed."""

from __future__ import annotations

from understudy.apiserver.extensions.definition import Definition
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.typeinfo import go_types
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import Obj

OBJECT_META = "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta"


class Schema:
    """The schema of one version. It knows metadata only: everything else is taken as it is."""

    def __init__(self, schema: Obj, metadata: Struct) -> None:
        self.schema = schema
        self._metadata = metadata

    def coerce(self, obj: Obj, unknown: list[str] | None = None, *, stored: bool = False) -> Obj:
        """Return a decoded object with its metadata in canonical form (upstream: `unstructuredSchemaCoercer.apply`).

        The unknown fields are added to `unknown`, if it is a list. Raises DecodeError.
        """
        if stored or not isinstance(obj.get("metadata"), dict):
            return obj
        metadata, strict_errors = decode_value(obj["metadata"], self._metadata)
        if unknown is not None:
            unknown += strict_errors
        return {**obj, "metadata": metadata}

    def default(self, obj: Obj) -> Obj:
        """Return an object with its defaults."""
        return obj


class Schemas:
    """The schemas of all versions of a definition."""

    def __init__(self, definition: Definition, release: Version) -> None:
        self.definition = definition
        self.metadata = go_types.Schemas.of(release).struct(OBJECT_META)
        self._compiled: dict[str, Schema] = {}

    def of(self, version: str) -> Schema:
        """Return the schema of a version; one that the definition does not have any more knows no fields."""
        schema = self._compiled.get(version)
        if schema is None:
            definition = self.definition
            declared = definition.schema(version) if version in definition.versions else {}
            schema = self._compiled[version] = Schema(declared, self.metadata)
        return schema
