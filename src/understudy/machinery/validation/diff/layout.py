"""The text of a difference as a tree, and its layout: what fits on one line, columns, signs in the margin.

A node is a line (str), a Wrap around another node, or Rows, which are one below the other unless all of them fit on
one line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from understudy.machinery.types import dataclass

NIL, ELLIPSIS = "nil", "..."
REMOVED, INSERTED, SAME = "-", "+", " "

_WIDTH = 80  # longest line of what was removed or inserted, in bytes


@dataclass(slots=True)
class Count:
    """The numbers of things ("field", "byte") that are the same on both sides, removed, inserted or modified."""

    what: str
    identical: int = 0
    removed: int = 0
    inserted: int = 0
    modified: int = 0

    @property
    def changed(self) -> int:
        """Return the number of things that are not the same on both sides."""
        return self.removed + self.inserted + self.modified

    def __bool__(self) -> bool:
        return bool(self.identical or self.changed)

    def add(self, other: Count) -> None:
        """Add the numbers of another count."""
        self.identical += other.identical
        self.removed += other.removed
        self.inserted += other.inserted
        self.modified += other.modified

    def __str__(self) -> str:
        parts = [
            f"{n} {kind}" for kind in ("identical", "removed", "inserted", "modified") if (n := getattr(self, kind))
        ]
        what = self.what if self.identical + self.changed == 1 else _plural(self.what)
        listed = " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
        return f"{listed} {what}"


def _plural(what: str) -> str:
    return what[:-1] + "ies" if what.endswith("y") else what + "s"


@dataclass(slots=True)
class Wrap:
    """A node between a prefix and a suffix."""

    prefix: str
    inner: Node
    suffix: str = ""


@dataclass(slots=True)
class Row:
    """One row of many. `sign` is REMOVED, INSERTED, SAME or "" for that of the surroundings."""

    node: Node
    key: str = ""
    sign: str = ""
    comma: bool = True
    comment: Count | str | None = None


@dataclass(slots=True)
class Rows:
    """Rows, one below the other, or on one line if all of them fit."""

    rows: list[Row]

    def leave_out(self, count: Count | None = None) -> None:
        """Add a row that stands for others, or add to the last one if it is such a row."""
        if not self.rows or self.rows[-1].node != ELLIPSIS:
            self.rows.append(Row(ELLIPSIS, comma=False, comment=replace(count) if count else None))
        elif count and isinstance(noted := self.rows[-1].comment, Count):
            noted.add(count)


Node: TypeAlias = str | Wrap | Rows


def braces(rows: Rows) -> Wrap:
    """Return rows in braces, as Go writes composite values."""
    return Wrap("{", rows, "}")


def size(text: str) -> int:
    """Return Go's length of a string: its bytes."""
    return len(text.encode("utf-8", "surrogateescape"))


def one_line(node: Node) -> str:
    """Return the text on a single line, without signs and comments."""
    return _compact(node, "")[0]


def render(node: Node) -> str:
    """Return the whole text, lines ended."""
    return f"{_margin('', 0)}{_expand(_compact(node, '')[1], '', 0)}\n"


def _within(sign: str, row: Row) -> str:
    """Return the sign of a row among rows of the sign `sign`."""
    return row.sign if row.sign in (REMOVED, INSERTED) else sign


def _compact(node: Node, sign: str) -> tuple[str, Node]:
    """Return the text on a single line, and the node with every part that fits put on a single line."""
    if isinstance(node, str):
        return node, node
    if isinstance(node, Wrap):
        text, inner = _compact(node.inner, sign)
        text = f"{node.prefix}{text}{node.suffix}"
        return text, text if isinstance(inner, str) else Wrap(node.prefix, inner, node.suffix)
    return _compact_rows(node, sign)


def _compact_rows(node: Rows, sign: str) -> tuple[str, Node]:
    texts: list[str] = []
    rows: list[Row] = []
    for row in node.rows:
        text, inner = _compact(row.node, _within(sign, row))
        texts.append(f"{row.key}: {text}" if row.key else text)
        rows.append(Row(inner, row.key, row.sign, row.comma, row.comment))
    text = ", ".join(texts)
    many = any(
        row.sign in (REMOVED, INSERTED) or not isinstance(row.node, str) or row.comment is not None for row in rows
    ) or (sign in (REMOVED, INSERTED) and size(text) > _WIDTH)
    return text, Rows(rows) if many else text


def _margin(sign: str, depth: int) -> str:
    """Return the start of a line. Real servers choose at their start between these spaces and U+00A0."""
    return (sign if sign in (REMOVED, INSERTED) else " ") + " " + "\t" * depth


def _expand(node: Node, sign: str, depth: int) -> str:
    """Return the text of a compacted node on as many lines as it takes."""
    if isinstance(node, str):
        return node
    if isinstance(node, Wrap):
        return f"{node.prefix}{_expand(node.inner, sign, depth)}{node.suffix}"
    lines = _batched(node.rows)
    if lines is None:
        return _expand_rows(node.rows, sign, depth)
    margin = f"\n{_margin(sign, depth + 1)}"
    return "".join(margin + line for line in lines) + f"\n{_margin(sign, depth)}"


def _batched(rows: list[Row]) -> list[str] | None:
    """Put plain lines side by side, as many as the width allows; return None for rows that are not plain."""
    batches = [""]
    for row in rows:
        if row.sign or row.key or not isinstance(row.node, str) or row.comment is not None:
            return None
        if size(batches[-1]) + size(row.node) + 2 > _WIDTH:
            batches.append("")
        batches[-1] += f"{row.node}, "
    return [batch.rstrip(" ") for batch in batches if batch]


def _expand_rows(rows: list[Row], sign: str, depth: int) -> str:
    """Lay out rows with values in one column and comments in another."""
    keys = _padding(rows, lambda row: len(row.key) if row.key and isinstance(row.node, str) else None)
    values = _padding(
        rows,
        lambda row: (
            len(row.node) if isinstance(row.node, str) and row.node != ELLIPSIS and row.comment is not None else None
        ),
    )
    out = ""
    for row, key_padding, value_padding in zip(rows, keys, values, strict=True):
        here = _within(sign, row)
        key = f"{row.key}: " if row.key else ""
        comma = "," if row.comma else ""
        comment = f" // {row.comment}" if row.comment is not None else ""
        value = _expand(row.node, here, depth + 1)
        out += f"\n{_margin(here, depth + 1)}{key}{key_padding}{value}{comma}{value_padding}{comment}"
    return f"{out}\n{_margin(sign, depth)}"


def _padding(rows: list[Row], length: Callable[[Row], int | None]) -> list[str]:
    """Return the spaces after each row's text; rows without a text (None) start a new column."""
    out: list[str] = []
    for aligned, group in groupby([length(row) for row in rows], key=lambda n: n is not None):
        lengths = [n or 0 for n in group]
        longest = max(lengths)
        out += [" " * (longest - n) if aligned else "" for n in lengths]
    return out
