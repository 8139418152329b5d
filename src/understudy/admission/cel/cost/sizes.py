"""How big the parts of `device` can get: the limits of the API, seen along a path of the expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from understudy.admission.cel.cost.ranges import Path, Range

MAX_ATTRIBUTES: Final = 32
MAX_DOMAIN: Final = 63
MAX_ID: Final = 32
MAX_DRIVER: Final = 63
MAX_VALUE: Final = 64


@dataclass(frozen=True)
class _Shape:
    """One part: its size, what is inside, and for attributes that any name may follow."""

    size: int
    keys: _Shape | None = None
    values: _Shape | None = None
    fields: Mapping[str, _Shape] = field(default_factory=dict)
    any_field: bool = False


def _maps(value: _Shape, any_field: bool) -> _Shape:
    inner = _Shape(MAX_ATTRIBUTES, _Shape(MAX_ID), value, any_field=any_field)
    return _Shape(MAX_ATTRIBUTES, _Shape(MAX_DOMAIN), inner)


_DEVICE: Final = _Shape(
    0,
    fields={
        "driver": _Shape(MAX_DRIVER),
        "attributes": _maps(_Shape(MAX_VALUE), any_field=True),
        "capacity": _maps(_Shape(0), any_field=False),
    },
)


def device_size(path: Path) -> Range | None:
    """The size of what `path` leads to, None if it leads out of what is declared."""
    if path[0] != "device":
        return None
    shape: _Shape | None = _DEVICE
    for step in path[1:]:
        assert shape is not None
        match step:
            case "@items" | "@values":
                inner = shape.values
            case "@keys":
                inner = shape.keys
            case _:
                inner = shape.fields.get(step) or (shape.values if shape.any_field else None)
        if inner is None:
            return None
        shape = inner
    assert shape is not None
    return Range(0, shape.size)
