"""The compaction of history that a running server does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from understudy import Server
from understudy.apiserver.server import lifecycle
from understudy.apiserver.storage.interface import Store

Log = list[tuple[str, float]]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Record starts and stops with the seconds of the interval, instead of compacting."""
    calls: Log = []

    async def compact_never(store: Store, interval: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        calls.append(("started", interval))
        try:
            await asyncio.Event().wait()
        finally:
            calls.append(("stopped", interval))

    monkeypatch.setattr(lifecycle, "compact_periodically", compact_never)
    return calls


def test_compaction_begins_anew_with_a_reset(log: Log) -> None:
    """A reset forgets the revision of the last turn, for revisions begin anew; the end of a server ends it."""
    with Server(etcd_compaction_interval="1m30s") as server:
        server.get("Namespace", "default")
        server.reset()
        server.get("Namespace", "default")
        assert log == [("started", 90), ("stopped", 90), ("started", 90)]
    assert log[3:] == [("stopped", 90)]


@pytest.mark.parametrize(("interval", "expected"), [(None, [("started", 300)]), ("0", [])])
def test_compaction_interval(log: Log, interval: str | None, expected: Log) -> None:
    """History is compacted every five minutes, with an interval of 0 never."""
    with Server() if interval is None else Server(etcd_compaction_interval=interval) as server:
        server.get("Namespace", "default")
        assert log == expected


def test_fixture_does_not_compact(apiserver: Server) -> None:
    """A test that takes long finds the history that it has made."""
    assert apiserver._config.etcd_compaction_interval == "0"
