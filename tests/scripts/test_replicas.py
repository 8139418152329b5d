"""The checks of `torture replicas` find what they look for."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from scripts.torture.replicas import Operation, Run, check_entries, check_history, check_watches
from scripts.torture.shared import Ledger


def claim(name: str, *entries: str) -> Any:
    return {"metadata": {"name": name}, "status": {"reservedFor": [{"name": entry} for entry in entries]}}


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        ([claim("a", "x", "y"), claim("b")], []),
        ([claim("a", "x"), claim("b")], ["1 acknowledged entries are lost, such as ['y']; 1 are there"]),
        ([claim("a", "x", "y"), claim("b", "x")], ["0 acknowledged entries are lost, such as []; 3 are there"]),
    ],
)
def test_entries_are_there_once(claims: list[Any], wrong: list[str]) -> None:
    run = Run(Ledger(), entries={"x": "a", "y": "a"})
    check_entries(run, claims)
    assert run.wrong == wrong


@pytest.mark.parametrize(
    ("streams", "wrong"),
    [
        ([[5, 7], [5, 7, 9]], []),
        ([[5, 7], [5]], ["watcher 1: 1 events, and not the 2 of another"]),
        ([[5, 5, 7], [5, 5, 7]], ["events are doubled or out of order"]),
        ([[7, 5], [7, 5]], ["events are doubled or out of order"]),
    ],
)
def test_watchers_see_the_same(streams: list[list[int]], wrong: list[str]) -> None:
    """Watchers may be told of later writes, which nobody waited for."""
    ledger = Ledger(writes={5: ("a", "MODIFIED"), 7: ("b", "MODIFIED")})
    run = Run(ledger, seen={5: ("a", "MODIFIED", 1), 7: ("b", "MODIFIED", 2)})
    check_watches(run, [array("Q", stream) for stream in streams])
    assert run.wrong == wrong


def test_acknowledged_writes_are_seen() -> None:
    run = Run(Ledger(writes={5: ("a", "MODIFIED"), 7: ("a", "MODIFIED")}), seen={7: ("a", "MODIFIED", 2)})
    check_watches(run, [array("Q", [7])])
    assert run.wrong == ["1 acknowledged writes were not seen, such as [5]"]


def append(client: int, call: int, origin: str, state: str, *, done: bool = True, returned: int = 0) -> Operation:
    return Operation(client, "claim", call, "append", origin, state, done, returned)


def read(client: int, call: int, state: str) -> Operation:
    return Operation(client, "claim", call, "read", "", state, True, call + 1)


HISTORY = [
    append(0, 1, "", "x", returned=2),
    read(1, 3, "x"),
    append(1, 5, "", "y", done=False, returned=6),
    append(0, 7, "x", "x y"),
    read(1, 9, "x"),
    read(1, 11, "x y"),
]


@pytest.mark.go
@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ([], []),
        ([read(2, 13, "x")], ["the history is not linearizable"]),
        ([append(2, 13, "x", "x z", returned=14)], ["the history is not linearizable"]),
        ([append(2, 13, "x y", "x y z", done=False, returned=14)], ["the history is not linearizable"]),
        ([append(2, 13, "x", "x z")], []),
    ],
    ids=["a write without an answer, read later", "a stale read", "a lost write", "a wrong refusal", "not done"],
)
def test_stale_reads_and_lost_writes_are_found(more: list[Operation], wrong: list[str], tmp_path: Path) -> None:
    run = Run(Ledger(), history=[*HISTORY, *more])
    check_history(run, tmp_path / "history")
    assert run.wrong == wrong
