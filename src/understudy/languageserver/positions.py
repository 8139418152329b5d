"""Positions as the protocol has them: lines, and characters counted as the client counts them, usually in UTF-16."""

from __future__ import annotations

from bisect import bisect_right

from lsprotocol import types as lsp
from pygls.workspace import PositionCodec

from understudy.machinery.util.regex import regex

_END_OF_LINE = regex(r"\r\n|\n|\r")


class Positions:
    """The positions in a text; all other modules count its code points."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self.text = text
        self._codec = codec
        self._lines = [0, *(match.end() for match in _END_OF_LINE.finditer(text))]  # offsets at which they begin

    def offset(self, position: lsp.Position) -> int:
        """Return the offset of a position, of the end of the line for one behind it."""
        if position.line >= len(self._lines):
            return len(self.text)
        start = self._lines[position.line]
        end = _END_OF_LINE.search(self.text, start)
        units = 0
        for offset in range(start, end.start() if end else len(self.text)):
            if units >= position.character:
                return offset
            units += self._codec.client_num_units(self.text[offset])
        return end.start() if end else len(self.text)

    def position(self, offset: int) -> lsp.Position:
        """Return the position of an offset."""
        line = bisect_right(self._lines, offset) - 1
        return lsp.Position(line, self._codec.client_num_units(self.text[self._lines[line] : offset]))

    def range(self, start: int, end: int) -> lsp.Range:
        """Return the range between two offsets."""
        return lsp.Range(self.position(start), self.position(end))
