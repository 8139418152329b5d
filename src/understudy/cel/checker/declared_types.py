"""The types that structural schemas declare, with the largest sizes of their values (`SchemaDeclType`).

A size that no schema limits is limited by the size of a request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Final

from understudy.cel import types
from understudy.cel.cost.estimate import Estimate, Path
from understudy.cel.escaping import escape, keyword_field
from understudy.cel.types import Type, with_type_and_object_meta
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj, dataclass

MAX_REQUEST_SIZE: Final = 3 * 1024 * 1024
_BYTES_OF_A_CHARACTER: Final = 4
# The JSON sizes of texts with a format: (smallest, largest).
_DURATION_SIZE: Final = (3, 32)
_DATE_SIZE: Final = (12, 12)
_DATE_TIME_SIZE: Final = (21, 32)
_MIN_STRING_SIZE: Final = 2
_MIN_BOOL_SIZE: Final = 4
_MIN_NUMBER_SIZE: Final = 1
_LONGEST_STRING: Final = MAX_REQUEST_SIZE - 2

# Since 1.35 the maxLength of an int-or-string limits its estimated size.
_LIMITS_INT_OR_STRING = ByRelease({V1_35: True, V1_31: False})


@dataclass(frozen=True, eq=False)
class DeclaredType:
    """A type with its sizes: `key` and `element` are set in maps, `element` in lists, `fields` in objects.

    `max_elements` counts elements, entries or bytes; `min_size` are the bytes of the smallest value in JSON. Two types
    are equal if every expression has the same types and costs with them.
    """

    type: Type
    max_elements: int = 0
    min_size: int = 2
    key: DeclaredType | None = None
    element: DeclaredType | None = None
    fields: Mapping[str, DeclaredType] | None = field(default=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeclaredType) and self._signature == other._signature

    def __hash__(self) -> int:
        return hash(self._signature)

    @cached_property
    def _signature(self) -> str:
        """A text that equal types share."""
        inner = [self.element._signature] if self.element else []
        inner += [f"{name}:{part._signature}" for name, part in sorted((self.fields or {}).items())]
        text = f"{self.type}/{self.max_elements}/{self.min_size}/{','.join(inner)}"
        return text if len(text) < 64 else hashlib.sha256(text.encode()).hexdigest()

    @property
    def max_cardinality(self) -> int:
        """The number of values of this type that fit into a request (`maxCardinality`)."""
        return MAX_REQUEST_SIZE // (self.min_size + 1)

    def named(self, name: str, messages: dict[str, Mapping[str, Type]], *, keywords: bool) -> Type:
        """Return the type in which objects have names that begin with `name`; their fields are added to `messages`.

        keywords  whether fields that are named like keywords may be written unescaped, too
        """
        if self.fields is not None:
            fields = {
                key: part.named(f"{name}.{key}", messages, keywords=keywords) for key, part in self.fields.items()
            }
            if keywords:
                unescaped = ((key.strip("_"), of) for key, of in fields.items())
                fields |= {key: of for key, of in unescaped if keyword_field(key) in fields}
            messages[name] = fields
            return types.struct(name)
        if self.element is None:
            return self.type
        if self.key is None:
            return types.list_of(self.element.named(f"{name}.@idx", messages, keywords=keywords))
        return types.map_of(types.STRING, self.element.named(f"{name}.@elem", messages, keywords=keywords))

    def estimate_size(self, path: Path) -> Estimate | None:
        """Return the size of the value at a path whose first step is a variable of this type."""
        current: DeclaredType | None = self
        for step in path[1:]:
            assert current is not None
            match step:
                case "@items" | "@values":
                    current = current.element
                case "@keys":
                    current = current.key
                case _:
                    current = (current.fields or {}).get(step)
            if current is None:
                return None
        assert current is not None
        return Estimate(0, current.max_elements)


_KEY = DeclaredType(types.STRING)
_OBJECT = types.struct("object")


def declared_type(schema: Obj, version: Version, *, resource_root: bool = False) -> DeclaredType | None:
    """Return the type of the values of a structural schema, None if expressions cannot see them.

    Values that are only preserved have no type, and neither have lists and maps of them.

    resource_root  whether the schema is that of a whole object, or of an embedded one
    """
    if schema.get("x-kubernetes-int-or-string"):
        limit = _max_bytes(schema) if _LIMITS_INT_OR_STRING[version] else None
        return DeclaredType(types.DYN, _LONGEST_STRING if limit is None else limit, 1)
    if resource_root:
        schema = with_type_and_object_meta(schema)
    match schema.get("type"):
        case "array":
            return _list(schema, version)
        case "object":
            return _object(schema, version)
        case "string":
            return _string(schema)
        case "boolean":
            return DeclaredType(types.BOOL, 0, _MIN_BOOL_SIZE)
        case "number":
            return DeclaredType(types.DOUBLE, 0, _MIN_NUMBER_SIZE)
        case "integer":
            return DeclaredType(types.INT, 0, _MIN_NUMBER_SIZE)
    return None


def is_typed(schema: Obj) -> bool:
    """Report whether the values of a structural schema have a type: whether `declared_type` returns one."""
    if schema.get("x-kubernetes-int-or-string"):
        return True
    match schema.get("type"):
        case "array":
            return isinstance(schema.get("items"), dict) and is_typed(schema["items"])
        case "object":
            others = schema.get("additionalProperties")
            return not isinstance(others, dict) or is_typed(others)
    return schema.get("type") in ("string", "boolean", "number", "integer")


def has_typed_elements(schema: Obj) -> bool:
    """Report whether the values of a structural schema are lists or maps of values that have a type."""
    kind, others = schema.get("type"), schema.get("additionalProperties")
    return is_typed(schema) and (kind == "array" or (kind == "object" and isinstance(others, dict)))


def _inner(schema: Obj, version: Version) -> DeclaredType | None:
    return declared_type(schema, version, resource_root=bool(schema.get("x-kubernetes-embedded-resource")))


def _limit(schema: Obj, name: str, otherwise: Callable[[], int]) -> int:
    """Return the limit that a schema sets, at least 0."""
    limit = schema.get(name)
    return otherwise() if limit is None else max(limit, 0)


def _list(schema: Obj, version: Version) -> DeclaredType | None:
    element = _inner(schema["items"], version) if isinstance(schema.get("items"), dict) else None
    if element is None:
        return None
    limit = _limit(schema, "maxItems", lambda: _LONGEST_STRING // (element.min_size + 1))
    return DeclaredType(types.list_of(element.type), limit, element=element)


def _object(schema: Obj, version: Version) -> DeclaredType | None:
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        element = _inner(others, version)
        if element is None:
            return None
        limit = _limit(schema, "maxProperties", lambda: _LONGEST_STRING // (element.min_size + 6))
        return DeclaredType(types.map_of(types.STRING, element.type), limit, key=_KEY, element=element)
    fields: dict[str, DeclaredType] = {}
    size, required = 2, frozenset(schema.get("required") or ())
    for name, part in (schema.get("properties") or {}).items():
        declared = _inner(part, version)
        if declared is None:
            continue
        if (escaped := escape(name)) is not None:
            fields[escaped] = declared
        if name in required and part.get("default") is None:
            size += len(name.encode()) + declared.min_size + 4
    return DeclaredType(_OBJECT, 0, size, fields=fields)


def _string(schema: Obj) -> DeclaredType:
    match schema.get("format"):
        case "byte":
            return DeclaredType(types.BYTES, _limit(schema, "maxLength", lambda: _LONGEST_STRING), _MIN_STRING_SIZE)
        case "duration":
            return DeclaredType(types.DURATION, _DURATION_SIZE[1], _DURATION_SIZE[0])
        case "date":
            return DeclaredType(types.TIMESTAMP, _DATE_SIZE[1], _DATE_SIZE[0])
        case "date-time":
            return DeclaredType(types.TIMESTAMP, _DATE_TIME_SIZE[1], _DATE_TIME_SIZE[0])
    limit = _max_bytes(schema)
    if limit is None:
        values = schema.get("enum") or ()
        sizes = [len(value.encode()) for value in values if isinstance(value, str)]
        limit = max(sizes, default=0) if values else _LONGEST_STRING
    return DeclaredType(types.STRING, limit, _MIN_STRING_SIZE)


def _max_bytes(schema: Obj) -> int | None:
    """Return the bytes of the longest text that maxLength allows, None if nothing limits it."""
    return None if schema.get("maxLength") is None else max(schema["maxLength"], 0) * _BYTES_OF_A_CHARACTER
