"""Removal of the fields that a structural schema does not know (upstream: `apiserver/schema/pruning`)."""

from __future__ import annotations

from operator import is_not
from typing import Any

from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties
from understudy.machinery.types import Obj

META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


class Pruner:
    """A schema compiled to prune the values that it describes."""

    __slots__ = ("_embedded", "_items", "_others", "_preserves", "_properties")

    def __init__(self, schema: Obj, *, is_resource_root: bool = False) -> None:
        """Compile a schema. At the root of a resource, as in embedded ones, metadata is not pruned."""
        self._preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self._embedded = META_FIELDS if is_resource_root or schema.get("x-kubernetes-embedded-resource") else ()
        self._properties = compile_properties(schema, Pruner)
        others, items = schema.get("additionalProperties"), schema.get("items")
        self._others = None if others is None else Pruner(others) if isinstance(others, dict) else _KNOWS_NOTHING
        self._items = Pruner(items) if isinstance(items, dict) else None

    def prune(self, value: Any, unknown: list[str] | None = None, path: str = "") -> Any:
        """Return a value without its unknown fields, and add their paths to `unknown`, if that is a list.

        Few values have any: paths are made only for those that have.
        """
        out = self._prune(value, path, None, self._preserves)
        return out if unknown is None or out is value else self._prune(value, path, unknown, self._preserves)

    def _prune(self, value: Any, path: str, unknown: list[str] | None, preserves: bool) -> Any:
        if isinstance(value, dict):
            return self._prune_object(value, path, unknown, preserves)
        if isinstance(value, list):
            return self._prune_list(value, path, unknown, preserves)
        return value

    def _prune_object(self, value: Obj, path: str, unknown: list[str] | None, preserves: bool) -> Obj:
        out = value
        for name, item in value.items():
            if name in self._embedded:
                continue
            part = self._properties.get(name, self._others)
            if part is not None:
                if not isinstance(item, (dict, list)):
                    continue
                below = "" if unknown is None else f"{path}.{name}" if path else name
                new = part._prune(item, below, unknown, part._preserves)
                if new is not item:
                    out = dict(value) if out is value else out
                    out[name] = new
            elif not preserves:
                if unknown is not None and (path or name not in META_FIELDS):
                    unknown.append(f"{path}.{name}" if path else name)
                out = dict(value) if out is value else out
                del out[name]
        return out

    def _prune_list(self, value: list[Any], path: str, unknown: list[str] | None, preserves: bool) -> list[Any]:
        """Prune the elements of a list. Within a preserved list, elements that are objects keep unknown fields, too."""
        items = self._items or (None if preserves else _KNOWS_NOTHING)
        if items is None:
            return value
        preserves = preserves or items._preserves
        out = [
            items._prune(item, "" if unknown is None else f"{path}[{i}]", unknown, preserves)
            for i, item in enumerate(value)
        ]
        return out if any(map(is_not, out, value)) else value


_KNOWS_NOTHING = Pruner({})
