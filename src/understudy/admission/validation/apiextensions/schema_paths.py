"""Paths into the schema of a custom resource: `.spec.replicas`, and where it is allowed `.spec['a.b']`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from understudy.machinery.types import Obj

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_END = "unexpected end of JSON path"


class SchemaPathError(ValueError):
    """A path is wrong. str(e) says how."""


def at_path(schema: Obj, path: str, *, brackets: bool) -> Obj:
    """Return the schema of the field that a path leads to. Raises SchemaPathError."""
    tokens = iter(_TOKEN.findall(path))
    for token in tokens:
        if token == ".":
            schema = _child(schema, _next(tokens))
        elif token != "[":
            raise SchemaPathError(f"expected [ or . but got: {token}")
        elif not brackets:
            raise SchemaPathError("array notation is not allowed")
        else:
            quoted = _next(tokens)
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise SchemaPathError(f"expected single quoted string but got {quoted}")
            schema = _child(schema, re.sub(r"\\(.)", r"\1", quoted[1:-1]))
            if (bracket := _next(tokens)) != "]":
                raise SchemaPathError(f"expected ] but got {bracket}")
    return schema


def _next(tokens: Iterator[str]) -> str:
    try:
        return next(tokens)
    except StopIteration:
        raise SchemaPathError(_END) from None


def _child(schema: Obj, name: str) -> Obj:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    field = properties.get(name) if properties else others
    if not isinstance(field, dict):
        raise SchemaPathError("does not refer to a valid field")
    return field
