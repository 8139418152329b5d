"""Whether two values are the same to the real server: an empty list is no list, raw JSON is compared by its bytes."""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang.json_writer import Raw


def semantic_deep_equal(one: Any, other: Any) -> bool:
    """Equal up to lists that are null, empty or left out."""
    if one == other:  # fast, and mostly so
        return True
    if isinstance(one, Raw) or isinstance(other, Raw):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return all(semantic_deep_equal(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) or isinstance(other, list):
        one, other = one or [], other or []
        return len(one) == len(other) and all(map(semantic_deep_equal, one, other))
    return False
