"""The edit script between two lists, as go-cmp finds it.

It is not the shortest one. Two searches walk towards each other, one from the start of both lists and one from their
end, each taking the first match it sees on the diagonals around its position. The text of a difference shows which
way was found, so this is the same search step by step, with its budget: lists of thousands of elements take time in
proportion to their lengths. Real servers choose by chance which of the two begins; here the one from the start does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, count
from operator import eq, ne
from typing import Any

from understudy.machinery.types import NamedTuple

# In a script: the same, only in x, only in y, a modification of each other.
SAME, ONLY_X, ONLY_Y, MODIFIED = ".", "X", "Y", "M"

_FIRST_CHUNK = 16  # elements that are compared at a time in a run that is the same; doubled with each chunk


class Likeness(NamedTuple):
    """The amounts of two different elements that are the same and that are not."""

    same: int
    different: int


UNLIKE = Likeness(0, 2)


def edit_script(x: Sequence[Any], y: Sequence[Any], likeness: Callable[[int, int], Likeness]) -> str:
    """Return the script for two lists whose elements can be compared by `==`.

    `likeness(i, j)` looks at how much x[i] and y[j] differ; it is called only for a few that do.
    """
    nx, ny = len(x), len(y)
    forward = _Search(x, y, likeness, ONLY_X)
    backward = _Search(x[::-1], y[::-1], lambda i, j: likeness(nx - 1 - i, ny - 1 - j), ONLY_Y)
    budget = 4 * (nx + ny)
    turn, other = forward, backward
    while budget and not forward.has_met(backward):
        budget = turn.advance(other, budget)
        turn, other = other, turn
    forward.connect(nx - backward.x, ny - backward.y)
    return "".join(forward.script) + "".join(reversed(backward.script))


class _Search:
    """A search from one end of both lists, from which positions count.

    (x, y) is how far the script has come, `front` the place from which to look for the next match. `on_tie` is taken
    first when as much is left of both lists.
    """

    def __init__(
        self, xs: Sequence[Any], ys: Sequence[Any], likeness: Callable[[int, int], Likeness], on_tie: str
    ) -> None:
        self.xs, self.ys = xs, ys
        self.likeness = likeness
        self.on_tie = on_tie
        self.x = self.y = 0
        self.front = (0, 0)
        self.script: list[str] = []

    def has_met(self, other: _Search) -> bool:
        return self.front[0] + other.front[0] >= len(self.xs) or self.front[1] + other.front[1] >= len(self.ys)

    def advance(self, other: _Search, budget: int) -> int:
        """Go to the next match, if there is one around, and move the front. Return the rest of the budget.

        Every unsuccessful look costs some of the budget.
        """
        width, height = len(self.xs) - other.x, len(self.ys) - other.y
        match, budget = self._next_match(width, height, budget)
        if match:
            self.connect(*match)
            same = self._run_length(min(width - self.x, height - self.y))
            self.script.append(SAME * same)
            self.x += same
            self.y += same
            self.front = (self.x, self.y)
        x, y = self.front
        self.front = (x + 1, y) if width - x >= height - y else (x, y + 1)
        return budget

    def _next_match(self, width: int, height: int, budget: int) -> tuple[tuple[int, int] | None, int]:
        """Look at the front, then in turn one further below and one further above on the diagonal through it."""
        x, y = self.front
        if self.xs[x] == self.ys[y]:
            return (x, y), budget
        above, below = min(width - 1 - x, y - self.y), min(height - 1 - y, x - self.x)  # how many there are to look at
        up = down = None
        if above > 0:
            up = _first(map(eq, self.xs[x + 1 : x + 1 + above], self.ys[y - above : y][::-1]))
        if below > 0:
            down = _first(map(eq, self.xs[x - below : x][::-1], self.ys[y + 1 : y + 1 + below]))
        if down is not None and (up is None or down <= up):
            looks, match = 1 + down + min(down, above), (x - 1 - down, y + 1 + down)
        elif up is not None:
            looks, match = 1 + up + min(up + 1, below), (x + 1 + up, y - 1 - up)
        else:
            return None, max(budget - 1 - above - below, 0)
        return (match, budget - looks) if looks < budget else (None, 0)

    def _run_length(self, most: int) -> int:
        """Return the number of elements, `most` at most, that are the same from the script's place on."""
        length, size = 0, _FIRST_CHUNK
        while length < most:
            x, y = self.x + length, self.y + length
            end = min(size, most - length)
            these, those = self.xs[x : x + end], self.ys[y : y + end]
            if (differs := _first(map(ne, these, those))) is not None:
                return length + differs
            length, size = length + end, size * 2
        return length

    def connect(self, x: int, y: int) -> None:
        """Go straight to (x, y)."""
        while self.x < x and self.y < y:
            self._append(self._step(x - self.x, y - self.y))
        self.script.append(ONLY_X * (x - self.x) or ONLY_Y * (y - self.y))
        self.x, self.y = x, y

    def _step(self, left_of_x: int, left_of_y: int) -> str:
        if self.xs[self.x] == self.ys[self.y]:
            return SAME
        likeness = self.likeness(self.x, self.y)
        if likeness.same + 1 >= likeness.different:
            return MODIFIED
        if left_of_x == left_of_y:
            return self.on_tie
        return ONLY_X if left_of_x > left_of_y else ONLY_Y

    def _append(self, edit: str) -> None:
        self.script.append(edit)
        self.x += edit != ONLY_Y
        self.y += edit != ONLY_X


def _first(outcomes: Iterable[bool]) -> int | None:
    """Return the position of the first that is true."""
    return next(compress(count(), outcomes), None)
