"""The text of a comparison: what changed, what is around it, and how much else is the same.

Values are shown in less detail the further they are from a change; `Style.detail` counts down. Types are named where
the reader cannot tell them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from understudy.machinery.types import dataclass
from understudy.machinery.validation.diff.comparison import Comparison
from understudy.machinery.validation.diff.go_values import (
    BOOL,
    COMPOSITE,
    MAP,
    NUMBER,
    POINTER,
    SLICE,
    STRING,
    STRUCT,
    Value,
)
from understudy.machinery.validation.diff.layout import (
    ELLIPSIS,
    INSERTED,
    NIL,
    REMOVED,
    SAME,
    Count,
    Node,
    Row,
    Rows,
    Wrap,
    braces,
    one_line,
    size,
)
from understudy.machinery.validation.diff.runs import (
    is_printable,
    number_difference,
    quoted,
    string_difference,
    trimmed,
)

ALWAYS, COMPOSITES, NEVER = "always", "composites", "never"  # modes of naming types

_CONTEXT = 2  # parts shown around a change
_LEAST_DETAIL = 3  # for parts that changed
_MOST_DETAIL = 16
_LONG_STRING = 32  # bytes, or numbers in a list, from which on changes within are shown
_PARTS = {STRUCT: "field", SLICE: "element", MAP: "entry"}
_TIMES_CLOSER = 7  # how often a closer look is taken at what is different and looks the same


@dataclass(frozen=True, slots=True)
class Style:
    """The way to show a value.

    `mode` is REMOVED or INSERTED for a value of one side alone, SAME for one of both sides, "" for a difference.
    `plain` avoids String methods.
    """

    mode: str = ""
    types: str = ALWAYS
    detail: int = 0
    plain: bool = False

    def limit(self, shift: int) -> int:
        """Return 2**detail, times 2**shift."""
        return 1 << min(max(self.detail, 0), _MOST_DETAIL) << shift

    @property
    def most(self) -> int:
        """Return the number of parts of a value that are shown."""
        return self.limit(0) >> 1 << 2

    def closer(self, times: int) -> Style:
        """Return the style in more detail; `times` counts the attempts to tell two values apart."""
        return replace(self, detail=max(self.detail, 0) + 2 * times, plain=self.plain or times > 0)

    def deeper(self, types: str) -> Style:
        """Return the style of parts one level below."""
        return replace(self, types=types, detail=self.detail - 1)


_KEY = Style(SAME, NEVER, 6)


def report(comparison: Comparison, style: Style) -> Node | None:
    """Return the text of a part as a node; None if the part is not on the side that the style shows."""
    if style.mode == SAME:
        style = replace(style, detail=1)
    elif style.detail < _LEAST_DETAIL:
        style = replace(style, detail=_LEAST_DETAIL)
    if comparison.is_leaf:
        return _leaf(comparison, style)
    if comparison.target is not None:
        return _pointer(report(comparison.target, style))
    rows = _one_sided(comparison, style) if style.mode else _differences(comparison, style)
    return _typed(comparison.any, braces(rows), style)


def _pointer(target: Node | None) -> Node | None:
    return None if target is None else Wrap("&", target)


def _leaf(comparison: Comparison, style: Style) -> Node | None:
    x = _side(comparison.x, style) if style.mode != INSERTED else None
    y = _side(comparison.y, style) if style.mode != REMOVED else None
    if x is None or y is None:
        return y if x is None else x
    return x if size(one_line(x)) < size(one_line(y)) else y


def _typed(value: Value, node: Node, style: Style) -> Node:
    """Put the name of the type in front of a node where the style shows it."""
    if style.types == COMPOSITES and (value.kind not in COMPOSITE or node == NIL or style.mode == SAME):
        return node
    return node if style.types == NEVER else Wrap(value.go, node)


def _key(parent: Value, key: str) -> str:
    """Return the start of a part: the name of a field, the key of an entry."""
    return one_line(_value(Value(STRING, parent.keys, key), _KEY)) if parent.kind == MAP else key


# --- the parts of a struct, slice or map


def _below(comparison: Comparison, style: Style) -> Style:
    return style.deeper(COMPOSITES if comparison.kind == STRUCT else NEVER)


def _one_sided(comparison: Comparison, style: Style) -> Rows:
    """Show the parts of one side, without fields that are zero."""
    most = style.most if style.mode == SAME else style.limit(1)
    below = _below(comparison, style)
    out = Rows([])
    for key, part in comparison.parts:
        if len(out.rows) == most:
            out.leave_out()
            break
        if comparison.kind == STRUCT and _is_zero(part, style.mode):
            continue
        if (node := report(part, below)) is not None:
            out.rows.append(Row(node, _key(comparison.any, key)))
    return out


def _is_zero(part: Comparison, mode: str) -> bool:
    sides = (part.x if mode != INSERTED else None, part.y if mode != REMOVED else None)
    return any(side is not None and side.is_zero for side in sides)


def _differences(comparison: Comparison, style: Style) -> Rows:
    """Show the parts that changed, some of those around them, and how many others there are."""
    below = _below(comparison, style)
    what = _PARTS[comparison.kind]
    groups = [list(group) for _, group in groupby(comparison.parts, key=lambda part: part[1].different > 0)]
    out, rest, changes = Rows([]), Count(what), 0
    for i, group in enumerate(groups):
        count = _count(what, group)
        if changes >= style.limit(1):
            rest.add(count)
        elif count.changed:
            for key, part in group:
                out.rows += _changed(part, _key(comparison.any, key), below)
            changes += count.changed
        else:
            _unchanged(out, comparison, group, below, first=i == 0, last=i == len(groups) - 1)
    if rest:
        out.leave_out(rest)
    return out


def _count(what: str, group: list[tuple[str, Comparison]]) -> Count:
    count = Count(what)
    for _, part in group:
        if not part.different:
            count.identical += 1
        elif part.y is None:
            count.removed += 1
        elif part.x is None:
            count.inserted += 1
        else:
            count.modified += 1
    return count


def _unchanged(
    out: Rows, comparison: Comparison, group: list[tuple[str, Comparison]], below: Style, *, first: bool, last: bool
) -> None:
    head = 0 if first else min(_CONTEXT, len(group))
    tail = 0 if last else min(_CONTEXT, len(group) - head)
    if len(group) - head - tail == 1:  # a row to say so is no shorter
        tail += 1
    omitted = len(group) - head - tail
    for i, (key, part) in enumerate(group):
        if i < head or i >= head + omitted:
            node = report(part, replace(below, mode=SAME))
            if node is not None:
                out.rows.append(Row(node, _key(comparison.any, key)))
        elif i == head:
            out.leave_out(Count(_PARTS[comparison.kind], omitted))


def _changed(part: Comparison, key: str, style: Style) -> Iterator[Row]:
    inner = _inner_difference(part, style)
    if inner is None and not part.is_chain:
        inner = report(part, style)
    if inner is not None:
        yield Row(inner, key)
        return
    removed, inserted = _sides(part, style)
    if removed is not None:
        yield Row(removed, key, REMOVED)
    if inserted is not None:
        yield Row(inserted, key, INSERTED)


def _sides(part: Comparison, style: Style) -> tuple[Node | None, Node | None]:
    """Show both values of a part, in more detail while the two look the same."""
    removed = report(part, replace(style, mode=REMOVED))
    inserted = report(part, replace(style, mode=INSERTED))
    for times in range(_TIMES_CLOSER):
        if removed is None or removed != inserted:
            break
        closer = style.closer(times)
        removed = report(part, replace(closer, mode=REMOVED))
        inserted = report(part, replace(closer, mode=INSERTED))
    return removed, inserted


def _inner_difference(part: Comparison, style: Style) -> Node | None:
    """Show changes within long strings and lists of numbers; return None for everything else."""
    x, y = part.x, part.y
    if x is None or y is None or not x.content or not y.content:
        return None
    if x.kind == STRING and min(size(x.content), size(y.content)) >= _LONG_STRING:
        return string_difference(x.content, y.content, x.go, style.limit(2))
    if x.kind != SLICE or x.content[0].kind not in (NUMBER, BOOL):
        return None
    if part.different <= part.same and min(len(x.content), len(y.content)) < _LONG_STRING:
        return None
    old, new = ([element.content for element in side.content] for side in (x, y))
    return _typed(x, number_difference(old, new, x.content[0].go, style.limit(2)), style)


# --- values


def _side(value: Value | None, style: Style) -> Node | None:
    return None if value is None else _value(value, style)


def _value(value: Value, style: Style) -> Node:
    """Show a whole value."""
    if not style.plain and (printed := value.printed) is not None:
        return _string(printed, style, "s")
    if value.kind == POINTER and value.content is not None:
        return Wrap("&", _value(value.content, style))
    return _typed(value, _literal(value, style), style)


def _literal(value: Value, style: Style) -> Node:
    if value.content is None:
        return NIL
    if value.kind == STRING:
        return _string(value.content, style)
    if value.kind == BOOL:
        return "true" if value.content else "false"
    return braces(_parts(value, style)) if value.kind in COMPOSITE else str(value.content)


def _parts(value: Value, style: Style) -> Rows:
    if value.kind == SLICE:
        parts = [("", item) for item in value.content]
    elif value.kind == MAP:
        parts = [(key, value.content[key]) for key in sorted(value.content)]
    else:
        parts = [(name, item) for name, item in value.content.items() if not item.is_zero]
    below = style.deeper(COMPOSITES if value.kind == STRUCT else NEVER)
    out = Rows([Row(_value(item, below), _key(value, key)) for key, item in parts[: style.most]])
    if len(parts) > style.most:
        out.leave_out()
    return out


def _string(text: str, style: Style, prefix: str = "") -> Node:
    """Quote a text and cut it where it is long; several removed or inserted lines are below each other."""
    longest = style.limit(5)
    lines = text.removesuffix("\n").split("\n")
    if len(lines) >= 4 and style.mode in (REMOVED, INSERTED):
        lines = [trimmed(line) for line in lines]
        if all(_stands_alone(line, prefix, longest) for line in lines):
            return _triple_quoted(lines, style, prefix)
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > longest + len(ELLIPSIS):
        return f"{prefix}{quoted(octets[:longest].decode('utf-8', 'surrogateescape'))}{ELLIPSIS}"
    return f"{prefix}{quoted(text)}"


def _stands_alone(line: str, prefix: str, longest: int) -> bool:
    if line.removeprefix(prefix).startswith('"""') or line.startswith(ELLIPSIS):
        return False
    return is_printable(line) and size(line) <= longest


def _triple_quoted(lines: list[str], style: Style, prefix: str) -> Node:
    most = style.limit(2)
    kept = lines if len(lines) <= most else lines[: most - 1]
    rows = [Row(line, sign=style.mode, comma=False) for line in kept]
    if len(kept) < len(lines):
        comment = f"{len(lines) - len(kept)} elided lines"
        rows.append(Row(ELLIPSIS, sign=style.mode, comma=False, comment=comment))
    mark = Row(f'{prefix}"""', sign=style.mode, comma=False)
    return Wrap("(", Rows([mark, *rows, mark]), ")")
