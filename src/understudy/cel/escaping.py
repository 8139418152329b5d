"""The names of fields in expressions: what is not a CEL identifier is escaped (`Escape` of `pkg/cel/escaping.go`)."""

from __future__ import annotations

import re
from typing import Final

from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

_RESERVED: Final = frozenset(
    "true false null in as break const continue else for function if import let loop package namespace return var void "  # noqa: SIM905
    "while".split()
)
_NAME = regex(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def keyword_field(field: str) -> str:
    """Return the escaped name of a field that is a keyword, "" for other fields: expressions may write it unescaped."""
    return f"__{field}__" if field in _RESERVED else ""


@cache_short_texts(4096)
def escape(name: str) -> str | None:
    """Return the identifier of a field, None if it has a character that cannot be escaped.

    The field `a.b` is `a__dot__b`, and `namespace` is `__namespace__`.
    """
    if keyword := keyword_field(name):
        return keyword
    if not _NAME.fullmatch(name):
        return None
    return re.sub("__|[-./]", lambda match: _ESCAPED[match[0]], name)
