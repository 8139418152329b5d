"""Uniqueness of the elements of sets and of the keys of list maps (upstream: `apiserver/schema/listtype`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties, json_type
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Untyped
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid

Check = Callable[[Any, Path], Errors]


def compile_list_types(schema: Obj) -> Check | None:
    """Return the check of lists within the values of a schema, None if no list is a set or a map."""
    parts = compile_properties(schema, compile_list_types)
    fields = {name: check for name, check in parts.items() if check is not None}
    others = _compile_inner(schema.get("additionalProperties"))
    items = _compile_inner(schema.get("items"))
    own = _compile_list(schema)
    if not fields and others is None and items is None and own is None:
        return None

    def check(value: Any, path: Path) -> Errors:
        errors: Errors = []
        if isinstance(value, dict):
            if others is not None:
                for name, item in value.items():
                    errors += others(item, path.key(name))
            for name in fields.keys() & value.keys():
                errors += fields[name](value[name], path.child(name))
        elif isinstance(value, list):
            errors += own(value, path) if own is not None else []
            if items is not None:
                for i, item in enumerate(value):
                    errors += items(item, path.index(i))
        return errors

    return check


def _compile_inner(schema: Any) -> Check | None:
    return compile_list_types(schema) if isinstance(schema, dict) else None


def _compile_list(schema: Obj) -> Check | None:
    kind, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if kind == "set":
        return lambda value, path: [
            duplicate(path.index(i), Untyped(value[i])) for i in _duplicates(list(map(_identity, value)))
        ]
    if kind == "map":
        return lambda value, path: _check_map(value, keys, path)
    return None


def _check_map(value: Sequence[Any], keys: Sequence[str], path: Path) -> Errors:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            return [invalid(path.index(i), Untyped(item), text)]
    identity = _identity if len(keys) == 1 else _json_identity
    identities = [tuple([identity(item[key]) if item and key in item else None for key in keys]) for item in value]
    return [duplicate(path.index(i), Untyped(_keys_of(value[i], keys))) for i in _duplicates(identities)]


def _keys_of(item: Obj | None, keys: Sequence[str]) -> Obj:
    return {key: item[key] for key in keys if key in item} if item else {}


def _duplicates(identities: Sequence[Any]) -> Iterator[int]:
    """Yield the index of the second of equal items, but not of those that follow."""
    if len(set(identities)) == len(identities):
        return
    seen: dict[Any, int] = {}
    for i, identity in enumerate(identities):
        count = seen[identity] = seen.get(identity, 0) + 1
        if count == 2:
            yield i


def _identity(value: Any) -> Any:
    """Return something that equal values have in common; an integer is not equal to a float."""
    return _json_identity(value) if isinstance(value, dict | list) else (type(value), value)


def _json_identity(value: Any) -> Any:
    """Return something that values with the same JSON have in common."""
    if isinstance(value, dict | list):
        return encode_sorted(value)
    return (json_type(value).replace("integer", "number"), value)
