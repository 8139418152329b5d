"""How deep values nest that a decoder in C has read: since Python 3.14 it reads what Go does not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from understudy.machinery.golang.json_reader import check_depth


def nested(levels: int, shape: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if shape == "objects" else [value]
    return value


@pytest.mark.parametrize("shape", ["objects", "arrays"])
@pytest.mark.parametrize("levels", [9_999, 10_000, 10_001])
def test_ten_thousand_levels_are_read(levels: int, shape: str) -> None:
    """Go reads 10,000 levels, and no more."""
    text = '{"a":' * levels + "1" + "}" * levels if shape == "objects" else "[" * levels + "1" + "]" * levels
    with pytest.raises(ValueError, match="exceeded max depth") if levels > 10_000 else nullcontext():
        check_depth(text, nested(levels, shape))


def test_many_values_are_not_deep() -> None:
    """Any number of brackets may stand beside one another, and in strings."""
    check_depth("[" + "[]," * 20_000 + "[]]", [[]] * 20_001)
    check_depth('"' + "[" * 30_000 + '"', "[" * 30_000)
