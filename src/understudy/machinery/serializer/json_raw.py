"""The original bytes of raw values (RawExtension), found again in the text of a body that was parsed without
positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class NeedsExactDecoder(Exception):  # noqa: N818  # a signal, not an error
    """A signal of the fast decoder: the value is unusual and the exact decoder has to start over."""


class SourceText:
    """The text that a value was parsed from, to find the bytes of its raw parts again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: dict[str, list[tuple[Any, str]]] = {}

    def raw(self, key: str, value: Any) -> bytes:
        """Return the bytes of `value`, which is under `key`. Raises NeedsExactDecoder if the text has equal values
        with other bytes."""
        if key not in self._found:
            self._found[key] = list(self._occurrences(f'"{key}"'))
        spellings = {text for parsed, text in self._found[key] if parsed == value}
        if len(spellings) != 1:
            raise NeedsExactDecoder
        return spellings.pop().encode()

    def _occurrences(self, key: str) -> Iterator[tuple[Any, str]]:
        at = self.text.find(key)
        while at >= 0:
            at += len(key)
            begin = _skip(self.text, at)
            if self.text[begin] == ":":
                begin = _skip(self.text, begin + 1)
                parsed, end = _DECODER.raw_decode(self.text, begin)
                yield parsed, self.text[begin:end]
            at = self.text.find(key, at)


_DECODER = json.JSONDecoder()


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
