"""Values paired with those that they replace: which parts of an object did not change (upstream: `CorrelatedObject`).

old = Correlation(new_object, old_object, schema)
old.key("spec").index(0)            # None if there was no such element before
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from understudy.kinds.apiextensions.structural_schema.json_values import is_same, json_type
from understudy.machinery.types import Obj

_KEY_TYPES = ("boolean", "number", "integer", "string")


class Correlation:
    """A value, the one that it replaces, and the schema by which their parts are matched.

    Elements of lists are matched in lists of type map only, by their keys. A field without a schema, as preserved
    unknown ones are, matches nothing.
    """

    def __init__(self, value: Any, old: Any, schema: Obj) -> None:
        self.value = value
        self.old = old
        self.schema = schema
        self._children: dict[str | int, Correlation] = {}

    def key(self, name: str) -> Correlation | None:
        """Return the correlation of a field, None if it cannot be matched."""
        if name in self._children:
            return self._children[name]
        schema = (self.schema.get("properties") or {}).get(name, self.schema.get("additionalProperties"))
        both = isinstance(self.value, dict) and isinstance(self.old, dict)
        if not both or not isinstance(schema, dict) or name not in self.value or name not in self.old:
            return None
        child = self._children[name] = Correlation(self.value[name], self.old[name], schema)
        return child

    def index(self, index: int) -> Correlation | None:
        """Return the correlation of an element of a list, None if it cannot be matched."""
        if index in self._children:
            return self._children[index]
        items = self.schema.get("items")
        if self.schema.get("x-kubernetes-list-type") != "map" or not isinstance(items, dict):
            return None
        key = self._key_of(self.value[index])
        if key is None or key not in self._old_by_key:
            return None
        child = self._children[index] = Correlation(self.value[index], self._old_by_key[key], items)
        return child

    @cached_property
    def _old_by_key(self) -> dict[tuple[Any, ...], Any]:
        """Return the old elements by their keys, the first of those with the same."""
        out: dict[tuple[Any, ...], Any] = {}
        for item in self.old if isinstance(self.old, list) else ():
            key = self._key_of(item)
            if key is not None:
                out.setdefault(key, item)
        return out

    def _key_of(self, item: Any) -> tuple[Any, ...] | None:
        """Return the keys of an element with their types, None if it lacks one."""
        keys = self.schema.get("x-kubernetes-list-map-keys") or ()
        if not keys or not isinstance(item, dict):
            return None
        values = [item.get(key) for key in keys]
        types = [json_type(value) for value in values]
        if any(name not in _KEY_TYPES for name in types):
            return None
        return (*types, *values)

    @cached_property
    def is_unchanged(self) -> bool:
        """Report whether the value is the old one (upstream: `CachedDeepEqual`). Parts that cannot be matched count as
        changed, but for lists that are no maps, which are compared as a whole."""
        value, old = self.value, self.old
        if not isinstance(value, dict | list) or json_type(value) != json_type(old):
            return is_same(value, old)
        if len(value) != len(old):
            return False
        if isinstance(value, dict):
            return all(self._is_same_part(self.key(name)) for name in value)
        if self.schema.get("x-kubernetes-list-type") != "map":
            return is_same(value, old)
        return all(self._is_same_part(self.index(i)) for i in range(len(value)))

    @staticmethod
    def _is_same_part(part: Correlation | None) -> bool:
        return part is not None and part.is_unchanged
