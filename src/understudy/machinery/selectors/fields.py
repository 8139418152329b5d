"""Field selectors: parsing, with the real server's error texts. Upstream: `k8s.io/apimachinery/pkg/fields`."""

from __future__ import annotations

import re

from understudy.machinery.selectors.labels import SelectorError
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.caches import cache_short_texts


class FieldTerm(NamedTuple):
    """One condition of a field selector: `label=value`, or `label!=value` if `equal` is false (upstream:
    `fields.Requirement`)."""

    label: str
    value: str
    equal: bool


@cache_short_texts(1024)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector into terms, all of which an object has to meet. Raises SelectorError.

    A term with an empty label and an empty value selects everything and is left out.
    """
    out = []
    for part in sorted(re.findall(r"(?:\\.|\\$|[^,\\])+", text, re.S)):
        operator = re.search(r"!=|==|=", part)
        if not operator:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        out.append(FieldTerm(part[: operator.start()], _unescaped(part[operator.end() :]), operator.group() != "!="))
    return tuple(term for term in out if term.label or term.value)


def _unescaped(text: str) -> str:
    """Return the value of a field selector's term without backslashes (upstream: `fields.UnescapeValue`). Raises
    SelectorError."""
    if "\\" not in text:
        if "=" in text:
            raise SelectorError("invalid field selector: unescaped character in value: 61")
        return text
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            escaped = text[at + 1 : at + 2]
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            char = escaped
            at += 1
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        out += char
        at += 1
    return out
