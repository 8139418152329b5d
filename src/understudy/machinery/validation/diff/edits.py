"""The edit script between two lists, as go-cmp finds it.

It is not the shortest one. Two searches walk towards each other, one from the start of both lists and one from their
end, each taking the first match it sees on the diagonals around its position. The text of a difference shows which
way was found, so this is the same search step by step. Real servers choose by chance which of the two begins; here
the one from the start does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

# In a script: the same, only in x, only in y, a modification of each other.
SAME, ONLY_X, ONLY_Y, MODIFIED = ".", "X", "Y", "M"


class Likeness(NamedTuple):
    """The amounts of two elements that are the same and that are not."""

    same: int
    different: int


EQUAL, UNLIKE = Likeness(1, 0), Likeness(0, 2)


def edit_script(nx: int, ny: int, likeness: Callable[[int, int], Likeness]) -> str:
    """Return the script for lists of these lengths; `likeness(i, j)` compares x[i] with y[j]."""
    forward = _Search(nx, ny, likeness, ONLY_X)
    backward = _Search(nx, ny, lambda i, j: likeness(nx - 1 - i, ny - 1 - j), ONLY_Y)
    budget = 4 * (nx + ny)
    turn, other = forward, backward
    while budget and not forward.has_met(backward):
        budget = turn.advance(other, budget)
        turn, other = other, turn
    forward.connect(nx - backward.x, ny - backward.y)
    return "".join(forward.script) + "".join(reversed(backward.script))


def _diagonals() -> Iterator[int]:
    """Yield 0, -1, 1, -2, 2, …"""
    for n in count():
        yield n
        yield -n - 1


class _Search:
    """A search from one end of both lists, from which positions count.

    (x, y) is how far the script has come, `front` the place from which to look for the next match. `on_tie` is taken
    first when as much is left of both lists.
    """

    def __init__(self, nx: int, ny: int, likeness: Callable[[int, int], Likeness], on_tie: str) -> None:
        self.nx, self.ny = nx, ny
        self.likeness = likeness
        self.on_tie = on_tie
        self.x = self.y = 0
        self.front = (0, 0)
        self.script: list[str] = []

    def has_met(self, other: _Search) -> bool:
        return self.front[0] + other.front[0] >= self.nx or self.front[1] + other.front[1] >= self.ny

    def advance(self, other: _Search, budget: int) -> int:
        """Go to the next match, if there is one around, and move the front. Return the rest of the budget.

        Every unsuccessful look costs some of the budget.
        """
        width, height = self.nx - other.x, self.ny - other.y
        match, budget = self._next_match(width, height, budget)
        if match:
            self.connect(*match)
            while self.x < width and self.y < height and not self.likeness(self.x, self.y).different:
                self._append(SAME)
            self.front = (self.x, self.y)
        x, y = self.front
        self.front = (x + 1, y) if width - x >= height - y else (x, y + 1)
        return budget

    def _next_match(self, width: int, height: int, budget: int) -> tuple[tuple[int, int] | None, int]:
        above = below = False  # whether the diagonals have left the space in that direction
        for offset in _diagonals():
            if (above and below) or not budget:
                return None, budget
            x, y = self.front[0] + offset, self.front[1] - offset
            if x >= width or y < self.y:
                above = True
            elif y >= height or x < self.x:
                below = True
            elif not self.likeness(x, y).different:
                return (x, y), budget
            else:
                budget -= 1
        raise AssertionError("diagonals do not end")

    def connect(self, x: int, y: int) -> None:
        """Go straight to (x, y)."""
        while self.x < x and self.y < y:
            self._append(self._step(x - self.x, y - self.y))
        while self.x < x:
            self._append(ONLY_X)
        while self.y < y:
            self._append(ONLY_Y)

    def _step(self, left_of_x: int, left_of_y: int) -> str:
        likeness = self.likeness(self.x, self.y)
        if not likeness.different:
            return SAME
        if likeness.same + 1 >= likeness.different:
            return MODIFIED
        if left_of_x == left_of_y:
            return self.on_tie
        return ONLY_X if left_of_x > left_of_y else ONLY_Y

    def _append(self, edit: str) -> None:
        self.script.append(edit)
        self.x += edit != ONLY_Y
        self.y += edit != ONLY_X
