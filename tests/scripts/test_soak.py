"""scripts.torture soak: its checks notice every way to lose an event, and a server passes them for a few seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.torture import soak_checks as checks
from tests.scripts.commands import run

Lines = list[bytes]


def stored(version: int, name: str, **metadata: Any) -> dict[str, Any]:
    fields = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": fields}


MARKED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"n": "1"}}
EVENTS = [
    ("ADDED", stored(6, "b")),
    ("MODIFIED", stored(7, "a", labels={"n": "1"})),
    ("MODIFIED", stored(8, "a", **MARKED)),
    ("DELETED", stored(9, "a", **MARKED)),
    ("ADDED", stored(12, "c")),
]
LINES = [json.dumps({"type": kind, "object": obj}).encode() for kind, obj in EVENTS]


def listed(version: int, *items: dict[str, Any]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}).encode()


FIRST = listed(5, stored(5, "a"))


def ledger() -> Any:
    """Return the ledger of a collection with what EVENTS tell, and the creation of the object in the first list."""
    made = checks.Ledger(marks=True)
    made.wrote(True, stored(5, "a"))
    for kind, obj in EVENTS:
        if kind == "DELETED":
            made.deleted(obj["metadata"]["name"], obj["metadata"]["uid"])
        elif "deletionTimestamp" not in obj["metadata"]:
            made.wrote(kind == "ADDED", obj)
    return made


def stream(lines: Lines, first: bytes = FIRST) -> Any:
    made = checks.Stream("watcher")
    made.list(first)
    for line in lines:
        made.take(line)
    return made


def failures(reference: Lines, other: Lines, first: bytes = FIRST, until: int = 12) -> list[str]:
    return list(ledger().check(stream(reference), [stream(other, first)], until))


def bookmark(version: int) -> bytes:
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}).encode()


def test_every_event_once_in_order() -> None:
    """A stream with every event, with bookmarks between them or not, has no failure."""
    assert failures(LINES, [LINES[0], bookmark(6), *LINES[1:4], bookmark(11), LINES[4], bookmark(13)]) == []


def test_list_after_410() -> None:
    """A stream that has expired begins again with a list, and need not have the events before it."""
    expired = b'{"type": "ERROR", "object": {"code": 410}}'
    made = stream([LINES[0], expired])
    assert made.version == 0
    made.list(listed(9, stored(6, "b")))
    assert made.take(LINES[4])
    assert list(ledger().check(stream(LINES), [made], 12)) == []


def changed(index: int, **metadata: Any) -> bytes:
    kind, obj = EVENTS[index]
    return json.dumps({"type": kind, "object": {**obj, "metadata": {**obj["metadata"], **metadata}}}).encode()


DOCTORED: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "dropped": (lambda lines: lines[:1] + lines[2:], "1 missing"),
    "last one dropped": (lambda lines: lines[:-1], "up to 9, not to 12"),
    "last one dropped, bookmark": (lambda lines: [*lines[:-1], bookmark(12)], "1 missing"),
    "doubled": (lambda lines: [lines[0], *lines], "ADDED 6 after 6"),
    "reordered": (lambda lines: [lines[1], lines[0], *lines[2:]], "ADDED 6 after 7"),
    "other content": (lambda lines: [changed(0, labels={"x": "y"}), *lines[1:]], "1 missing"),
    "other version": (lambda lines: [*lines[:4], changed(4, resourceVersion="13")], "1 missing"),
    "other type": (lambda lines: [lines[0].replace(b"ADDED", b"MODIFIED"), *lines[1:]], "1 missing"),
    "broken JSON": (lambda lines: [*lines[:2], lines[2][:40], *lines[2:]], "no event"),
    "no event": (lambda lines: [b"[]", *lines], "no event"),
    "an error": (lambda lines: [*lines, b'{"type": "ERROR", "object": {"code": 500}}'], "an error"),
    "bookmark too early": (lambda lines: [bookmark(8), *lines], "ADDED 6 after 8"),
    "bookmark of the past": (lambda lines: [*lines, bookmark(3)], "a bookmark of 3 after 12"),
    "unknown event": (lambda lines: [*lines, changed(4, resourceVersion="14")], "1 unexpected"),
    "nothing": (lambda lines: [], "up to 5, not to 12"),
}


@pytest.mark.parametrize(("doctored", "failure"), DOCTORED.values(), ids=DOCTORED)
def test_doctored_stream_fails(doctored: Callable[[Lines], Lines], failure: str) -> None:
    """An event that is lost, doubled, out of order or wrong is a failure of the watcher that has received it."""
    assert failure in "\n".join(failures(LINES, doctored(LINES)))


@pytest.mark.parametrize(
    ("doctored", "failure"),
    [
        (lambda lines: lines[:3] + lines[4:], "DELETED a uid-a was not seen"),
        (lambda lines: lines[:2] + lines[3:], "MARKED a uid-a was not seen"),
        (lambda lines: lines[:1] + lines[2:], "1 missing"),
        (lambda lines: [*lines[:3], changed(3, labels={"n": "2"}), lines[4]], "has other content"),
        (lambda lines: [*lines, changed(3, resourceVersion="13")], "was not asked for, or seen before"),
        (lambda lines: [*lines[:2], changed(2, resourceVersion="4"), *lines[3:]], "comes before"),
    ],
)
def test_events_that_nobody_sees_fail(doctored: Callable[[Lines], Lines], failure: str) -> None:
    """An event that all watchers have lost, or have seen alike but wrong, is a failure."""
    assert failure in "\n".join(failures(doctored(LINES), doctored(LINES)))


@pytest.mark.parametrize(
    "first",
    [
        listed(5),
        listed(5, stored(4, "a")),
        listed(5, stored(5, "a", labels={})),
        listed(5, stored(5, "a"), stored(5, "d")),
    ],
    ids=["missing", "old", "other content", "unknown"],
)
def test_wrong_list_fails(first: bytes) -> None:
    """A list must have each object as it was at the list's version."""
    assert "the list at 5 is wrong in 1 objects" in "\n".join(failures(LINES, LINES, first))


def test_reference_lists_once() -> None:
    """The reference has every event, so it may not begin again."""
    reference = stream(LINES)
    reference.list(listed(12, stored(6, "b"), stored(12, "c")))
    assert "has listed 2 times" in "\n".join(ledger().check(reference, [], 12))


def test_watcher_without_a_list_fails() -> None:
    """A watcher that has received nothing at all has not seen everything."""
    outcome = ledger().check(stream(LINES), [checks.Stream("idle")], 12)
    assert list(outcome) == ["idle: has received nothing"]


def test_versions_are_not_given_twice() -> None:
    """Two different writes that are answered with one version are a failure."""
    made = ledger()
    made.wrote(True, stored(12, "d"))
    assert "two writes have version 12" in "\n".join(made.check(stream(LINES), [], 12))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the server's memory from /proc")
def test_watchers_miss_nothing() -> None:
    """Watchers that lose their connections see every event once, in order, through compactions and resets."""
    done = run("torture", "soak", "--watchers", "12", "--minutes", "0.1", "--epoch", "2", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failures" in done.stdout
