"""Descriptions of types and fields in OpenAPI documents, which `kubectl explain` shows.

They are our own, not upstream's, and are in `schemas/descriptions`: one file for each API group, whose content is
`{package without its version: {type: {field: text}}}`. The field "" is the type itself. All versions and releases
share them, so that a field is described once. A type with `"like": OTHER` has the descriptions of another type of its
package for fields of which it says nothing itself. `common.json` describes fields that many types have in the same
sense; a description of the type's own replaces it. Nothing is read before a client asks for a document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha512
from typing import TypeAlias

import orjson

from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.schemas import SCHEMAS

Texts: TypeAlias = dict[str, str]  # by field; "" for the type itself

_COMMON = "common.json"
_LIKE = "like"
_GVK = "x-kubernetes-group-version-kind"
_VERSION = regex(r"\.v\d[a-z0-9]*$")


def described(name: str, schema: Obj) -> Obj:
    """Return a schema with the descriptions of its type and fields; those that it has itself stay.

    `name` is the OpenAPI name of the type, such as `io.k8s.api.core.v1.Pod`. Of a type whose package has no
    descriptions, such as a custom resource, only those fields are described that all objects have.
    """
    texts = _texts(name, schema)
    if not texts:
        return schema
    out: Obj = {"description": texts[""], **schema} if "" in texts else {**schema}
    if "properties" in schema:
        out["properties"] = {
            field: {"description": texts[field], **shape} if field in texts else shape
            for field, shape in schema["properties"].items()
        }
    return out


@lru_cache(1)
def digest() -> bytes:
    """Return a hash of all descriptions."""
    hashed = sha512()
    for _, content in _files():
        hashed.update(content)
    return hashed.digest()


def package_and_type(name: str) -> tuple[str, str]:
    """Return `io.k8s.api.core` and `Pod` for `io.k8s.api.core.v1.Pod`."""
    package, _, plain = name.rpartition(".")
    return _VERSION.sub("", package), plain


def _texts(name: str, schema: Obj) -> Texts:
    """Return the descriptions of a type: its own, and for other fields those that are common."""
    package, plain = package_and_type(name)
    types = _own().get(package)
    texts: Texts = {}
    for section in _sections(plain, schema, built_in=types is not None):
        texts |= _common()[section]
    own = (types or {}).get(plain, {})
    if types and _LIKE in own:
        texts |= types[own[_LIKE]]
    texts |= own
    kind = plain.removesuffix("List")
    return {field: text.replace("{kind}", kind) for field, text in texts.items()}


def _sections(plain: str, schema: Obj, *, built_in: bool) -> Iterator[str]:
    """Yield the sections of `common.json` that speak of a type, the most particular last."""
    if _GVK in schema:
        form = "list" if _is_list(schema) else "object"
        yield form
        if built_in:
            yield f"built-in {form}"
    elif built_in:
        yield from (ending.lower() for ending in ("Condition", "Status") if plain.endswith(ending))


def _is_list(schema: Obj) -> bool:
    metadata = schema.get("properties", {}).get("metadata", {})
    return any(part.get("$ref", "").endswith(".ListMeta") for part in metadata.get("allOf", ()))


@lru_cache(1)
def _common() -> Mapping[str, Texts]:
    sections: dict[str, Texts] = orjson.loads(dict(_files())[_COMMON])
    return sections


@lru_cache(1)
def _own() -> Mapping[str, Mapping[str, Texts]]:
    """Return {package without its version: {type: descriptions}} of all files."""
    types: dict[str, dict[str, Texts]] = {}
    for name, content in _files():
        if name != _COMMON:
            types.update(orjson.loads(content))
    return types


def _files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file with descriptions, sorted by name."""
    folder = SCHEMAS / "descriptions"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        yield path.name, path.read_bytes()
