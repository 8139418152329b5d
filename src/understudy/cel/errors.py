"""The errors of a compilation, and their text: message, source line, caret (`common.Errors` in cel-go)."""

from __future__ import annotations

from dataclasses import field

from understudy.machinery.types import dataclass

MAX_REPORTED = 100
MAX_RECURSION_DEPTH = 250
NO_LOCATION = -1
"""The offset of errors that concern the expression as a whole."""
BEFORE_SOURCE = -2
"""The offset of nodes that stand for text that could not be parsed; cel-go shows it before the first column."""


class EvaluationError(Exception):
    """An expression could not be evaluated; the text is cel-go's."""


class RecursionDepthError(Exception):
    """The error for operators and selections that are nested deeper than `MAX_RECURSION_DEPTH`, in cel-go's words."""

    def __init__(self) -> None:
        super().__init__("max recursion depth exceeded")


@dataclass(slots=True)
class Report:
    """Collects the errors of one source text as (offset, message) pairs.

    `empty_column` is the column at which an empty source ends, which differs between releases.
    """

    source: str
    empty_column: int = -1
    errors: list[tuple[int, str]] = field(default_factory=list)
    omitted: int = 0  # errors beyond those that are reported

    def add(self, pos: int, message: str) -> None:
        """Add an error at an offset in code points, or at `NO_LOCATION`."""
        if len(self.errors) < MAX_REPORTED:
            self.errors.append((pos, message))
        else:
            self.omitted += 1

    @property
    def count(self) -> int:
        """Return the number of errors."""
        return len(self.errors) + self.omitted

    def repeat(self, first: int, end: int) -> None:
        """Add the errors again that were added when there were from `first` to `end` of them."""
        for pos, message in self.errors[first:end]:
            self.add(pos, message)
        self.omitted += max(end - max(first, MAX_REPORTED), 0)

    def clear(self) -> None:
        """Forget all errors."""
        self.errors.clear()
        self.omitted = 0

    def __str__(self) -> str:
        """Return all errors in the order of the source, at most `MAX_REPORTED` of them (`ToDisplayString`)."""
        lines = self.source.split("\n")
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        located = sorted(
            ((_location(starts, pos, self.empty_column), message) for pos, message in self.errors),
            key=lambda error: error[0],
        )
        messages = [_to_display_string(lines, line, column, message) for (line, column), message in located]
        if self.omitted:
            messages.append(f"{self.omitted} more errors were truncated")
        return "\n".join(messages)


def _location(starts: list[int], pos: int, empty_column: int) -> tuple[int, int]:
    """Return the line (from 1) and column (from 0) of an offset."""
    if pos == NO_LOCATION:
        return -1, -1
    if pos == BEFORE_SOURCE:
        return 1, -1
    if len(starts) == 2 and starts[1] == 1:
        return 1, empty_column
    low, high = 0, len(starts) - 1
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= pos else (low, middle)
    return low + 1, pos - starts[low]


_MAX_SNIPPET = 16384


def _to_display_string(lines: list[str], line: int, column: int, message: str) -> str:
    """Return one error with its source line, if that is not too long, and a caret below the column."""
    message_line = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if lines == [""] or not 1 <= line <= len(lines) or len(lines[line - 1].encode(errors="replace")) > _MAX_SNIPPET:
        return message_line
    source = lines[line - 1].replace("\t", " ")
    # Full-width dots below wide characters keep the caret in its column.
    dots = "".join("\uff0e" if ord(char) > 127 else "." for char in source[: max(column, 0)])
    caret = "\uff3e" if 0 <= column < len(source) and ord(source[column]) > 127 else "^"
    return f"{message_line}\n | {source}\n | {dots}{caret}"
