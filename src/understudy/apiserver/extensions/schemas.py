"""The schemas of a definition's versions, compiled when they are first needed."""

from __future__ import annotations

from understudy.apiserver.extensions.definition import Definition
from understudy.kinds.apiextensions.structural_schema.schema import StructuralSchema
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo import go_types
from understudy.machinery.types import Obj, split_api_version


class Schemas:
    """The schemas of all versions of a definition."""

    def __init__(self, definition: Definition, version: Version) -> None:
        self.definition = definition
        self.version = version
        self.metadata = go_types.Schemas.of(version).object_meta
        self.of_other_kinds = StructuralSchema({}, version, preserve_unknown_fields=True)
        self._compiled: dict[str, StructuralSchema] = {}

    def of(self, version: str) -> StructuralSchema:
        """Return the schema of a version; one that the definition does not have any more knows no fields."""
        schema = self._compiled.get(version)
        if schema is None:
            definition = self.definition
            declared = definition.schema(version) if version in definition.versions else {}
            schema = self._compiled[version] = StructuralSchema(
                declared, self.version, preserve_unknown_fields=definition.preserves_unknown_fields
            )
        return schema

    def default(self, obj: Obj) -> Obj:
        """Return an object with the defaults of the version that it names; an object of another kind gets none."""
        group, version = split_api_version(obj.get("apiVersion", ""))
        is_own = (group, obj.get("kind")) == (self.definition.group, self.definition.kind)
        return self.of(version).default(obj) if is_own else obj
