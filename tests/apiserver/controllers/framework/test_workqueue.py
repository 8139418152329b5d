"""The work queue: each key once, by one worker at a time, and again later after failures."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import PATIENCE, running, until
from understudy.apiserver.controllers.framework import workqueue
from understudy.apiserver.controllers.framework.workqueue import WorkQueue
from understudy.machinery.util.rate_limit import TokenBucket


async def test_keys_are_handed_out_once() -> None:
    """A key added twice is handed out once; one added while being worked on is handed out again afterwards."""
    queue: WorkQueue[str] = WorkQueue()
    for key in "aba":
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    assert not queue.is_idle


async def test_earliest_delay_counts() -> None:
    """A key with several delays is added once, after the shortest."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 3600)
    queue.add_after("a", 0.01)
    queue.add_after("a", 3600)
    async with asyncio.timeout(PATIENCE):
        assert await queue.get() == "a"
    queue.add_after("b", 3600)
    queue.stop()
    assert len(queue) == 0


async def test_delays_double_until_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures are followed by 5, 10, 20 ms … 1,000 s, and by 5 ms again once forgotten."""
    queue: WorkQueue[str] = WorkQueue()
    delays: list[float] = []
    monkeypatch.setattr(queue, "add_after", lambda key, delay: delays.append(delay))
    for _ in range(20):
        queue.add_rate_limited("a")
    assert queue.failures("a") == 20
    queue.forget("a")
    queue.add_rate_limited("a")
    assert delays == [*(0.005 * 2**n for n in range(18)), 1000.0, 1000.0, 0.005]


async def test_retries_of_all_keys_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a hundred retries at once, further ones of any keys are spread over time: ten a second."""
    queue: WorkQueue[int] = WorkQueue()
    delays: list[float] = []
    monkeypatch.setattr(queue, "add_after", lambda key, delay: delays.append(delay))
    queue._retries = TokenBucket(workqueue.RETRIES_PER_SECOND, workqueue.RETRY_BURST, clock=lambda: 0.0)
    for key in range(110):
        queue.add_rate_limited(key)
    assert delays == [*[0.005] * 100, *(pytest.approx(number / 10) for number in range(1, 11))]


async def test_failed_keys_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """A key whose work fails, by whatever error, is tried again; no two workers have the same key."""
    queue: WorkQueue[str] = WorkQueue()
    tries: list[str] = []
    busy: set[str] = set()

    async def sync(key: str) -> None:
        assert key not in busy
        busy.add(key)
        await asyncio.sleep(0.001)
        busy.discard(key)
        tries.append(key)
        if tries.count(key) < 3:
            raise ConnectionError("not now") if key == "a" else LookupError("a bug")

    queue.add("a")
    queue.add("b")
    async with running(queue.process(sync, workers=2)):
        await until(lambda: sorted(tries) == ["a", "a", "a", "b", "b", "b"] and queue.is_idle)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    queue.stop()
