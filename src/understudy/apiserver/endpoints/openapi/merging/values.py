"""Walks through parts of OpenAPI documents, of whichever version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def in_key_order(value: Any) -> Any:
    """Return a value with sorted keys, as Go writes what has no type."""
    if isinstance(value, dict):
        return {key: in_key_order(value[key]) for key in sorted(value)}
    return [in_key_order(item) for item in value] if isinstance(value, list) else value


def references(value: Any) -> Iterator[str]:
    """Yield all references in a part of a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = value.values()
    elif not isinstance(value, list):
        return
    for item in value:
        yield from references(item)


def with_references(value: Any, links: dict[str, str]) -> Any:
    """Return a part of a document with other references."""
    if isinstance(value, list):
        return [with_references(item, links) for item in value]
    if not isinstance(value, dict):
        return value
    out = {key: with_references(item, links) for key, item in value.items()}
    if isinstance(link := out.get("$ref"), str):
        out["$ref"] = links.get(link, link)
    return out
