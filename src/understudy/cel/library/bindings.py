"""Names for values within an expression: `cel.bind(name, value, expression)`."""

from __future__ import annotations

from understudy.cel.parser import macros

DECLARATIONS = ""
MACROS = macros.BINDINGS_MACROS
