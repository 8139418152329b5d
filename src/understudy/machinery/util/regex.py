"""Regular expressions that are compiled when they are first used.

Python compiles one in 0.1 to 1 ms, and a start uses few of the two hundred that modules have: `regex` stands in for
`re.compile` where a module names one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["regex"]


class _Pattern:
    """Stands for a compiled pattern."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, which the next one finds here."""
        value = getattr(re.compile(*self._arguments), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    from re import compile as regex
else:
    regex = _Pattern
