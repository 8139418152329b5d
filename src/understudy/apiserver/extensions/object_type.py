"""The type of custom resources for managed fields and server-side apply."""

from __future__ import annotations

from understudy.apiserver.extensions.schemas import Schemas
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.apply.object_type import UnconvertibleError
from understudy.machinery.patch.structured_merge_diff.field_set import Set
from understudy.machinery.patch.structured_merge_diff.typed import MapType
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import Obj, split_api_version


class CustomObjectType:
    """The type of the objects of a definition in one version."""

    def __init__(self, schemas: Schemas, version: str) -> None:
        self.kind = schemas.definition.kind
        self._schemas = schemas
        self._version = version

    @property
    def merge_type(self) -> MapType:
        """Return the type that says which fields are owned one by one."""
        return self._schemas.of(self._version).merge_type

    @property
    def metadata(self) -> Struct:
        """Return the Go type of the metadata."""
        return self._schemas.metadata

    def of_version(self, api_version: str) -> CustomObjectType:
        """Return the type of the objects in another version. Raises UnconvertibleError."""
        group, version = split_api_version(api_version)
        definition = self._schemas.definition
        if group != definition.group:
            gvk = f"{definition.group}/{self._version}, Kind={definition.kind}"
            text = f"{gvk} is unstructured and is not suitable for converting to {go_quote(api_version)}"
            raise UnconvertibleError(text)
        if version not in definition.versions:
            raise UnconvertibleError(f"request to convert CR to an invalid group/version: {api_version}")
        return CustomObjectType(self._schemas, version)

    def empty(self, api_version: str) -> Obj:
        """Return an object of which nothing is set."""
        return {"apiVersion": api_version, "kind": self.kind, "metadata": {}}

    def decoded(self, obj: Obj) -> Obj:
        """Return the object: it is as it was decoded."""
        return obj

    def check(self, obj: Obj, fields: Set) -> None:
        """Raise InvalidValue if some fields of an object, or those that validation does not look at, do not have the
        types of the schema."""
        type_ = self.merge_type
        checks_all = self._schemas.of(self._version).lets_lists_pass
        for name in obj if checks_all else [field.removeprefix("f:") for field in fields]:
            if name in obj and name != "metadata":
                validate(type_.type_of(name), obj[name], allows_duplicates=True)

    def check_stored(self, obj: Obj) -> None:
        """Raise InvalidValue for an object that does not fit the schema, as one can whose definition has changed."""
        if self._schemas.definition.has_changed or self._schemas.of(self._version).lets_lists_pass:
            validate(self.merge_type, obj, allows_duplicates=True)

    def differences(self, old: Obj, new: Obj) -> Set:
        """Return no fields: objects are the same if their JSON is."""
        return {}

    def canonical(self, merged: Obj) -> Obj:
        """Return the object: it is stored as it was merged."""
        return merged
