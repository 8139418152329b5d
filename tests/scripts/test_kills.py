"""scripts.torture kills: its comparison notices a write that is missing, twice or out of order."""

from __future__ import annotations

import pytest

from scripts.torture.kills import Event, missing

ONE: list[Event] = [(5, "writer-1-a", "x"), (7, "writer-1-a", "y"), (0, "writer-1-a", "")]
TWO: list[Event] = [(6, "writer-2-a", "z")]
TOLD: list[Event] = [ONE[0], TWO[0], ONE[1], (8, "writer-1-a", "")]


def test_what_was_told_is_complete() -> None:
    """Writes that were not acknowledged may have happened, after the others."""
    assert missing([ONE, TWO], TOLD) == []
    assert missing([ONE, TWO], [*TOLD, (9, "writer-1-a", "late")]) == []


@pytest.mark.parametrize(
    "events",
    [
        TOLD[1:],
        TOLD[:3],
        [TOLD[0], TOLD[2], TOLD[3]],
        [TOLD[1], TOLD[0], *TOLD[2:]],
        [TOLD[0], *TOLD],
        [TOLD[0], (6, "writer-2-a", "other"), *TOLD[2:]],
        [TOLD[0], TOLD[1], (9, "writer-1-a", "y"), (10, "writer-1-a", "")],
    ],
)
def test_every_loss_is_noticed(events: list[Event]) -> None:
    """A first, last or only write that is missing, two in another order, one twice, with another value or revision."""
    assert missing([ONE, TWO], events) != []
