"""The largest sizes of the parts of `device`, from the limits of the API (the DRA library's `sizeEstimator`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from understudy.cel.cost.estimate import Estimate, Path
from understudy.machinery.types import dataclass

MAX_ATTRIBUTES: Final = 32
MAX_DOMAIN: Final = 63
MAX_ID: Final = 32
MAX_DRIVER: Final = 63
MAX_VALUE: Final = 64


@dataclass(frozen=True)
class _DeviceField:
    """The size of one part of `device`, and the parts inside it: keys, values, and fields by name.

    `any_field` lets any name select the values, as in `device.attributes["d"].name`.
    """

    size: int
    keys: _DeviceField | None = None
    values: _DeviceField | None = None
    fields: Mapping[str, _DeviceField] = field(default_factory=dict)
    any_field: bool = False


def _map_of_maps(value: _DeviceField, any_field: bool) -> _DeviceField:
    """Return the shape of a map from domains to maps from names to values."""
    next_shape = _DeviceField(MAX_ATTRIBUTES, _DeviceField(MAX_ID), value, any_field=any_field)
    return _DeviceField(MAX_ATTRIBUTES, _DeviceField(MAX_DOMAIN), next_shape)


_DEVICE: Final = _DeviceField(
    0,
    fields={
        "driver": _DeviceField(MAX_DRIVER),
        "allowMultipleAllocations": _DeviceField(1),
        "attributes": _map_of_maps(_DeviceField(MAX_VALUE), any_field=True),
        "capacity": _map_of_maps(_DeviceField(0), any_field=False),
    },
)


def estimate_size(path: Path) -> Estimate | None:
    """Return the size of the value at a path, None if the path leaves what is declared."""
    if path[0] != "device":
        return None
    shape: _DeviceField | None = _DEVICE
    for step in path[1:]:
        assert shape is not None
        match step:
            case "@items" | "@values":
                next_shape = shape.values
            case "@keys":
                next_shape = shape.keys
            case _:
                next_shape = shape.fields.get(step) or (shape.values if shape.any_field else None)
        if next_shape is None:
            return None
        shape = next_shape
    assert shape is not None
    return Estimate(0, shape.size)
