"""Differences of long strings and of lists of numbers: runs of bytes, lines or numbers near a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.diff.edits import MODIFIED, ONLY_X, ONLY_Y, SAME, UNLIKE, edit_script
from understudy.machinery.validation.diff.layout import (
    ELLIPSIS,
    INSERTED,
    REMOVED,
    Count,
    Node,
    Row,
    Rows,
    Wrap,
    braces,
    size,
)
from understudy.machinery.validation.diff.layout import SAME as UNCHANGED

_LINE, _TEXT, _BINARY, _NUMBERS = 1, 64, 16, 8  # how many lines, bytes or numbers are on a row
_CONTEXT = 2  # rows of what is the same around a change
_SPACE = regex("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_LONGEST_LINE = 1024

_EditCounts = list[Count]
_MakeRow = Callable[[Any, str], Row]


def quoted(text: str) -> str:
    """Quote a text, in backquotes where that saves escapes."""
    quotes = go_quote(text)
    if size(quotes) == size(text) + 2 or "`" in text or not is_printable(text):
        return quotes
    return f"`{text}`"


def is_printable(text: str) -> bool:
    """Report whether a text fits on a line as it is."""
    return text.replace("\t", "").isprintable()


def string_difference(x: str, y: str, go: str, limit: int) -> Node:
    """Show two strings of the type `go`; after `limit` changed rows the rest is left out."""
    both = x + y
    readable = sum(char != "\ufffd" and (char.isprintable() or bool(_SPACE.match(char))) for char in both)
    if readable == len(both) and _is_lined(x, y):
        return _lines(x.split("\n"), y.split("\n"), limit)
    old, new = x.encode("utf-8", "surrogateescape"), y.encode("utf-8", "surrogateescape")
    if readable > len(both) * 9 // 10:
        return _joined(_rows(old, new, _TEXT, "byte", limit, _text_row), "")
    return Wrap(go, braces(_rows(old, new, _BINARY, "byte", limit, _binary_row)))


def number_difference(x: Sequence[Any], y: Sequence[Any], what: str, limit: int) -> Node:
    """Show two lists of numbers of the type `what`."""
    return braces(_rows(x, y, _NUMBERS, what, limit, lambda part, sign: Row(", ".join(map(str, part)), sign=sign)))


def _text_row(part: bytes, sign: str) -> Row:
    return Row(quoted(part.decode("utf-8", "surrogateescape")), sign=sign)


def _binary_row(part: bytes, sign: str) -> Row:
    text = "".join(chr(byte) if 0x20 <= byte <= 0x7E else "." for byte in part)
    return Row(", ".join(f"0x{byte:02x}" for byte in part), sign=sign, comment=f"{sign}|{text}|")


def _joined(rows: Rows, separator: str) -> Node:
    return Wrap("strings.Join(", braces(rows), f", {go_quote(separator)})")


# --- lines


def _is_lined(x: str, y: str) -> bool:
    """Report whether lines show the change better than bytes do."""
    *ended, _ = (x + y).split("\n")
    if len(ended) < 4 or max(map(size, ended)) > _LONGEST_LINE:
        return False
    by_line = _share_of_changes(x.split("\n"), y.split("\n"))
    by_byte = _share_of_changes(x.encode(), y.encode())
    return by_line < 4 * by_byte or size(go_quote(x + y)) / size(x + y) > 1.1


def _share_of_changes(x: Sequence[Any], y: Sequence[Any]) -> float:
    script = _script(x, y)
    return (len(script) - script.count(SAME)) / len(script)


def _lines(x: list[str], y: list[str], limit: int) -> Node:
    plain = _rows(x, y, _LINE, "line", limit, lambda part, sign: Row(part[0], sign=sign, comma=False))
    if _is_unambiguous(plain.rows):
        return _triple_quoted(plain.rows)
    quotes = [row if _is_omission(row) else Row(quoted(str(row.node)), sign=row.sign) for row in plain.rows]
    return _joined(Rows(quotes), "\n")


def _is_omission(row: Row) -> bool:
    return row.node == ELLIPSIS and not row.sign


def _triple_quoted(rows: list[Row]) -> Node:
    lines = [row if _is_omission(row) else Row(trimmed(str(row.node)), sign=row.sign, comma=False) for row in rows]
    if lines[-1].sign == UNCHANGED and not lines[-1].node:
        lines.pop()
    mark = Row('"""', comma=False)
    return Wrap("(", Rows([mark, *lines, mark]), ")")


def trimmed(line: str) -> str:
    """Remove carriage returns from the ends of a line."""
    return line.removesuffix("\r").removeprefix("\r")


def _is_unambiguous(rows: list[Row]) -> bool:
    """Report whether triple quotes show the lines: all are printable, no change is in white space alone."""
    changed: dict[str, set[str]] = {REMOVED: set(), INSERTED: set()}
    for row in rows:
        if row.sign not in changed:
            changed = {REMOVED: set(), INSERTED: set()}
        if _is_omission(row):
            continue
        line = trimmed(str(row.node))
        if line.startswith(('"""', ELLIPSIS)) or not is_printable(line):
            return False
        if row.sign in changed:
            visible = _SPACE.sub("", line)
            if visible in changed[INSERTED if row.sign == REMOVED else REMOVED]:
                return False
            changed[row.sign].add(visible)
    return True


# --- runs


def _script(x: Sequence[Any], y: Sequence[Any]) -> str:
    return edit_script(x, y, lambda _i, _j: UNLIKE)


def _rows(x: Sequence[Any], y: Sequence[Any], width: int, what: str, limit: int, make: _MakeRow) -> Rows:
    """Make rows of `width` elements each with `make(elements, sign)`."""
    out = Rows([])

    def append(part: Sequence[Any], sign: str) -> None:
        out.rows.extend(make(part[at : at + width], sign) for at in range(0, len(part), width))

    counts = _runs(x, y, width, what)
    changes, rest = 0, Count(what)
    for i, run in enumerate(counts):
        if changes >= limit:
            rest.add(run)
        elif run.changed:
            before = len(out.rows)
            removed, inserted = _lengths(run)
            append(x[:removed], REMOVED)
            append(y[:inserted], INSERTED)
            x, y = x[removed:], y[inserted:]
            changes += len(out.rows) - before
        else:
            head, tail = _context(run.identical, width, first=i == 0, last=i == len(counts) - 1)
            append(x[:head], UNCHANGED)
            if omitted := run.identical - head - tail:
                out.leave_out(Count(what, omitted))
            append(x[run.identical - tail : run.identical], UNCHANGED)
            x, y = x[run.identical :], y[run.identical :]
    if rest:
        out.leave_out(rest)
    return out


def _context(length: int, width: int, *, first: bool, last: bool) -> tuple[int, int]:
    """Return the numbers of elements to show at the start and at the end of a run that is the same."""
    head = 0 if first else min(width * _CONTEXT, length)
    tail = 0 if last else min(width * _CONTEXT, length - head)
    return (head, length - head) if length - head - tail <= width else (head, tail)


def _lengths(run: Count) -> tuple[int, int]:
    """Return the lengths of a run in x and in y."""
    both = run.identical + run.modified
    return both + run.removed, both + run.inserted


def _runs(x: Sequence[Any], y: Sequence[Any], width: int, what: str) -> _EditCounts:
    """Return runs that are the same and runs that are changed, in turn."""
    groups = [list(group) for _, group in groupby(_script(x, y), key=lambda edit: edit == SAME)]
    counts = [Count(what, *map(group.count, (SAME, ONLY_X, ONLY_Y, MODIFIED))) for group in groups]
    return _trimmed_runs(_without_gaps(counts, width // 4), x, y)


def _without_gaps(counts: _EditCounts, longest: int) -> _EditCounts:
    """Join changes with so little between them that they read better as one."""
    out: _EditCounts = []
    for run in counts:
        if len(out) >= 2 and run.changed:
            before, gap = out[-2:]
            replaces = (before.removed or run.removed) and (before.inserted or run.inserted)
            if replaces and gap.identical <= longest:
                out.pop()
                before.add(gap)
                before.add(run)
                continue
        out.append(run)
    return out


def _trimmed_runs(counts: _EditCounts, x: Sequence[Any], y: Sequence[Any]) -> _EditCounts:
    """Give what is the same at the ends of a changed run to its neighbours."""
    i = j = 0
    for at, run in enumerate(counts):
        nx, ny = _lengths(run)
        if run.changed:
            head = _common(x[i : i + nx], y[j : j + ny])
            tail = _common(x[i : i + nx][::-1], y[j : j + ny][::-1])
            if head or tail:
                counts[at] = Count(run.what, removed=nx - head - tail, inserted=ny - head - tail)
                if at:
                    counts[at - 1].identical += head
                if at + 1 < len(counts):
                    counts[at + 1].identical += tail
                nx, ny = nx - tail, ny - tail
        i, j = i + nx, j + ny
    return counts


def _common(x: Sequence[Any], y: Sequence[Any]) -> int:
    """Return the number of equal elements at the start."""
    return next((n for n, (a, b) in enumerate(zip(x, y, strict=False)) if a != b), min(len(x), len(y)))
