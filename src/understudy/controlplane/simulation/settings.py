"""Settings of a simulation as a text: "per_hour=10,device_class=gpu.example.com"."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from understudy.machinery.util.spelling import did_you_mean

T = TypeVar("T")


def parse(cls: type[T], what: str, text: str) -> T:
    """Return the settings of a text, a dataclass whose fields are numbers and texts. Raises ValueError.

    what  "a workload has", as errors begin
    """
    defaults: dict[str, Any] = {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in defaults:
            raise ValueError(f"{what} no {name!r}{did_you_mean(name, defaults)}")
        try:
            values[name] = float(value) if isinstance(defaults[name], float) else value
        except ValueError:
            raise ValueError(f"want a number as {name}, not {value!r}") from None
    return cls(**values)


def check_above(settings: object, what: str, *names: str) -> None:
    """Raise ValueError for a setting that is not above 0."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"want {name} of {what} above 0, not {getattr(settings, name)!r}")


def check_not_below(settings: object, what: str, *names: str) -> None:
    """Raise ValueError for a setting that is below 0."""
    for name in names:
        if not getattr(settings, name) >= 0:
            raise ValueError(f"want {name} of {what} from 0 on, not {getattr(settings, name)!r}")
