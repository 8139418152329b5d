"""The function `duration` of an integer, which cel-go has no more since 1.37."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.library.time import to_duration
from understudy.cel.values import Value

FUNCTIONS: Mapping[str, Callable[..., Value]] = {"int64_to_duration": to_duration}
