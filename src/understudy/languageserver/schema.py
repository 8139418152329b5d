"""The schemas of kinds as OpenAPI has them, built-in and custom ones, with their descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from understudy.apiserver.endpoints.openapi.v3 import OpenAPI
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

_REFERENCE = "#/components/schemas/"
_RAW = ".RawExtension"
_ANY_OBJECT: Obj = {"type": "object", "x-kubernetes-embedded-resource": True}
_SCALARS = {"boolean": "boolean", "integer": "integer", "number": "number", "string": "string"}


class Schema:
    """The schema of a value: what it refers to (`$ref`, `allOf`) is part of it.

    name  the OpenAPI name of its type (`io.k8s.api.core.v1.PodSpec`), "" for one without a name
    """

    def __init__(self, raw: Obj, types: Mapping[str, Obj]) -> None:
        self._types = types
        self.name = ""
        self._raw = self._resolved(raw)

    def _resolved(self, raw: Obj) -> Obj:
        references = [raw, *raw.get("allOf", ())]
        for each in references:
            name = str(each.get("$ref", "")).removeprefix(_REFERENCE)
            if name in self._types:
                self.name = name
                return {**self._types[name], **raw}
        return raw

    @property
    def description(self) -> str:
        """Return the description, "" if there is none."""
        return str(self._raw.get("description", ""))

    @property
    def required(self) -> frozenset[str]:
        """Return the names of the fields that an object must have."""
        return frozenset(self._raw.get("required", ()))

    @property
    def default(self) -> Any:
        """Return the default, None if there is none. Empty ones are those of Go, and mean nothing."""
        return self._raw.get("default") or None

    @cached_property
    def properties(self) -> dict[str, Schema]:
        """Return the schemas of the fields of an object, by name."""
        return {name: Schema(raw, self._types) for name, raw in self._raw.get("properties", {}).items()}

    @cached_property
    def items(self) -> Schema | None:
        """Return the schema of the items of a list, None for what is no list."""
        items = self._raw.get("items")
        return Schema(items, self._types) if isinstance(items, dict) else None

    @cached_property
    def values(self) -> Schema | None:
        """Return the schema of the values of a map, None for what is no map."""
        values = self._raw.get("additionalProperties")
        return Schema(values, self._types) if isinstance(values, dict) else None

    @property
    def is_object(self) -> bool:
        """Report whether the value is an object, or a map."""
        return bool(self.properties) or self.values is not None or self._raw.get("type") == "object"

    @property
    def holds_any_object(self) -> bool:
        """Report whether the value is an object with its own apiVersion and kind."""
        return bool(self._raw.get("x-kubernetes-embedded-resource")) or self.name.endswith(_RAW)

    @property
    def choices(self) -> tuple[Any, ...]:
        """Return the values that are allowed, () for any."""
        if self._raw.get("type") == "boolean":
            return (True, False)
        return tuple(value for value in self._raw.get("enum", ()) if value != "")

    @property
    def type(self) -> str:
        """Return the type in short: `string`, `PodSpec`, `[]Container`, `map[string]string`."""
        if self.items is not None:
            return f"[]{self.items.type}"
        if self._raw.get("x-kubernetes-int-or-string"):
            return "IntOrString"
        if self.name:
            return self.name.rpartition(".")[2]
        if self.values is not None:
            return f"map[string]{self.values.type}"
        return _SCALARS.get(self._raw.get("type", ""), "object" if self.is_object else "any")

    def step(self, step: str | int) -> Schema | None:
        """Return the schema of a member of an object, or of an item of a list; None for an unknown one."""
        if isinstance(step, int):
            return self.items
        return self.properties.get(step) or self.values


class Schemas:
    """The schemas of the kinds that are served."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._openapi = OpenAPI(serving)
        self._types: dict[str, Mapping[str, Obj]] = {}
        self._known: dict[tuple[str, str], Schema | None] = {}

    @cached_property
    def any_object(self) -> Schema:
        """Return the schema of an object of which only the kind will tell the schema."""
        return Schema(_ANY_OBJECT, {})

    @cached_property
    def list_of_any(self) -> Schema:
        """Return the schema of a v1 List."""
        return Schema({"type": "object", "properties": {"items": {"type": "array", "items": _ANY_OBJECT}}}, {})

    def of(self, api_version: str, kind: str) -> Schema | None:
        """Return the schema of a kind's objects, None for a kind that is not served."""
        if (api_version, kind) == ("v1", "List"):
            return self.list_of_any
        asked = (api_version, kind)
        if asked not in self._known:
            self._known[asked] = self._find(GroupVersionKind(*split_api_version(api_version), kind))
        return self._known[asked]

    def _find(self, gvk: GroupVersionKind) -> Schema | None:
        if self.serving.kind_in(*gvk) is None:
            return None
        types = self.types(gvk.group, gvk.version)
        named = gvk._asdict()
        for raw in types.values():
            if named in raw.get("x-kubernetes-group-version-kind", ()):
                return Schema(raw, types)
        return None

    def types(self, group: str, version: str) -> Mapping[str, Obj]:
        """Return the types of a group-version by their OpenAPI names, with descriptions."""
        name = f"apis/{group}/{version}" if group else f"api/{version}"
        if name not in self._types:
            self._types[name] = self._openapi.document(name).get("components", {}).get("schemas", {})
        return self._types[name]
