"""The comparison of two values, part by part."""

from __future__ import annotations

from dataclasses import field
from functools import cache

from understudy.machinery.types import dataclass
from understudy.machinery.validation.diff.edits import ONLY_X, ONLY_Y, Likeness, edit_script
from understudy.machinery.validation.diff.go_values import MAP, POINTER, SLICE, STRUCT, Value


@dataclass(slots=True, eq=False)
class Comparison:
    """The outcome of comparing `x` and `y`; one of them is None where an element or entry has no counterpart.

    `same` and `different` count the leaves below, `descendants` all parts, `depth` the levels below. `parts` are
    those of a struct, slice or map with their names or keys, `target` is the comparison of what two pointers point to.
    """

    x: Value | None
    y: Value | None
    same: int = 0
    different: int = 0
    descendants: int = 0
    depth: int = 0
    parts: list[tuple[str, Comparison]] = field(default_factory=list)
    target: Comparison | None = None

    @property
    def kind(self) -> str:
        """Return the kind of the values."""
        return self.any.kind

    @property
    def any(self) -> Value:
        """Return one of the two values, for what both have in common."""
        side = self.y if self.x is None else self.x
        if side is None:
            raise ValueError("nothing to compare")
        return side

    @property
    def is_leaf(self) -> bool:
        """Report whether the values are compared as a whole."""
        return self.depth == 0

    @property
    def is_chain(self) -> bool:
        """Report whether each part is the only part of its parent, down to the leaf."""
        return self.descendants == self.depth

    def add(self, part: Comparison) -> None:
        """Count a part in."""
        self.same += part.same
        self.different += part.different
        self.descendants += part.descendants + 1
        self.depth = max(self.depth, part.depth + 1)


def compare(x: Value | None, y: Value | None) -> Comparison:
    """Compare two values. Empty and nil are different; types with an Equal method are leaves."""
    if x is None or y is None:
        return _leaf(x, y, False)
    if x.same_as is not None and y.same_as is not None:
        return _leaf(x, y, x.same_as == y.same_as)
    if x.kind not in (STRUCT, SLICE, MAP, POINTER):
        return _leaf(x, y, x.content == y.content)
    if x.content is None or y.content is None:
        return _leaf(x, y, x.content is y.content)
    node = Comparison(x, y)
    if x.kind == POINTER:
        node.target = compare(x.content, y.content)
        node.add(node.target)
        return node
    node.parts = _elements(x.content, y.content) if x.kind == SLICE else _members(x, y)
    for _, part in node.parts:
        node.add(part)
    return node


def _leaf(x: Value | None, y: Value | None, equal: bool) -> Comparison:
    return Comparison(x, y, same=int(equal), different=int(not equal))


def _members(x: Value, y: Value) -> list[tuple[str, Comparison]]:
    """Pair the fields of two structs as they are declared, and the entries of two maps by their keys."""
    names = x.content if x.kind == STRUCT else sorted({*x.content, *y.content})
    return [(name, compare(x.content.get(name), y.content.get(name))) for name in names]


def _elements(x: list[Value], y: list[Value]) -> list[tuple[str, Comparison]]:
    compared = cache(lambda i, j: compare(x[i], y[j]))

    def likeness(i: int, j: int) -> Likeness:
        return Likeness(compared(i, j).same, compared(i, j).different)

    out: list[tuple[str, Comparison]] = []
    i = j = 0
    script = edit_script([item.identity for item in x], [item.identity for item in y], likeness)
    for edit in script:
        if edit == ONLY_X:
            part = compare(x[i], None)
        elif edit == ONLY_Y:
            part = compare(None, y[j])
        else:
            part = compared(i, j)
        out.append(("", part))
        i += edit != ONLY_Y
        j += edit != ONLY_X
    return out
