"""Equality of values as the real server sees it (upstream: `apiequality.Semantic.DeepEqual`)."""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang.json_writer import Raw


def semantic_deep_equal(one: Any, other: Any) -> bool:
    """Report whether two values are equal up to lists that are null, empty or left out.

    Raw JSON is compared by its bytes.
    """
    if one == other:  # fast, and mostly so
        return True
    if isinstance(one, Raw) or isinstance(other, Raw):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        differing = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        return all(semantic_deep_equal(one.get(name), other.get(name)) for name in differing)
    if isinstance(one, list) or isinstance(other, list):
        one, other = one or [], other or []
        return len(one) == len(other) and all(map(semantic_deep_equal, one, other))
    return False
