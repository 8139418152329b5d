"""Paths into the schema of a custom resource: `.spec.replicas`, and where it is allowed `.spec['a.b']`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Path

_TOKEN = regex(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_END = "unexpected end of JSON path"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class SchemaPathError(ValueError):
    """A path is wrong. str(e) says how."""


def at_path(schema: Obj, path: str, *, brackets: bool) -> Obj:
    """Return the schema of the field that a path leads to. Raises SchemaPathError."""
    return resolve(schema, path, brackets=brackets)[1]


def resolve(schema: Obj, path: str, *, brackets: bool) -> tuple[Path, Obj]:
    """Return the path of a field as errors show it, and its schema (upstream: `ValidFieldPath`).

    Raises SchemaPathError.
    """
    tokens, where = iter(_TOKEN.findall(path)), Path()
    for token in tokens:
        if token == ".":
            name = _next(tokens)
        elif token != "[":
            raise SchemaPathError(f"expected [ or . but got: {token}")
        elif not brackets:
            raise SchemaPathError("array notation is not allowed")
        else:
            quoted = _next(tokens)
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise SchemaPathError(f"expected single quoted string but got {quoted}")
            name = re.sub(r"\\(.)", _unescaped, quoted[1:-1])
        where = where.child(name) if schema.get("properties") else where.key(name)
        schema = _child(schema, name)
        if token == "[" and (bracket := _next(tokens)) != "]":
            raise SchemaPathError(f"expected ] but got {bracket}")
    return where, schema


def _unescaped(match: re.Match[str]) -> str:
    if match[1] not in _ESCAPES:
        raise SchemaPathError(f"invalid string literal: invalid escape char {match[0]}")
    return _ESCAPES[match[1]]


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
