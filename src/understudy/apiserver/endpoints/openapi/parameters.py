"""The parameters of operations in OpenAPI documents: those of paths, and the fields of types such as `ListOptions`.

Their descriptions are recorded in `schemas/parameters.json`, by type and field.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import orjson

from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import List, Scalar, Schemas, Shape
from understudy.machinery.types import Obj
from understudy.schemas import SCHEMAS

PRETTY = (
    "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or "
    "command-line HTTP tool (curl and wget)."
)


def in_path(name: str, description: str) -> Obj:
    """Return a parameter that is a part of the path."""
    return {"name": name, "in": "path", "description": description, "required": True, "schema": _schema("string")}


def in_query(name: str, description: str, kind: str = "string") -> Obj:
    """Return a parameter of the query."""
    return {"name": name, "in": "query", "description": description, "schema": _schema(kind)}


def of_options(version: Version, options: str, left_out: Collection[str] = ()) -> list[Obj]:
    """Return the fields of a type as parameters of the query (`AddObjectParams`).

    Objects, times among them, are no parameters; a list of scalars is like one of them.
    """
    texts = _texts()[options]
    return [
        in_query(field.json, texts[field.json], kind)
        for field in Schemas.of(version).kind("", "v1", options).declared
        if field.json not in ("", *left_out) and (kind := _json_type(field.type))
    ]


def _json_type(shape: Shape) -> str:
    """Return the JSON type of a parameter (`typeToJSON`), "" for what is none."""
    if isinstance(shape, List):
        return _json_type(shape.element)
    if isinstance(shape, Scalar):
        return {"bool": "boolean", "string": "string"}.get(shape.kind, "integer")
    return ""


def _schema(kind: str) -> Obj:
    return {"type": kind, "uniqueItems": True}


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Return {type: {field: description}}."""
    texts: dict[str, dict[str, str]] = orjson.loads((SCHEMAS / "parameters.json").read_bytes())
    return texts
