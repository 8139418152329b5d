"""Watches are sent as fast as their clients read; the timer of a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.waiting import until
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.http.watch_answers import Answer
from understudy.apiserver.server.http.watch_stream import MANY_WAITING, Alarm, Pump, Pumps
from understudy.apiserver.storage import turns
from understudy.machinery.util.clock import SystemClock

CLOCK = SystemClock()


async def test_alarm_rings_at_the_last_time_set() -> None:
    """Setting an alarm again moves it; after it rang it can be set to the same time again."""
    rung = asyncio.Event()
    alarm = Alarm(CLOCK, rung.set)
    alarm.set(CLOCK.monotonic() + 3600)
    past = CLOCK.monotonic()
    for _ in range(2):
        alarm.set(past)
        await asyncio.wait_for(rung.wait(), 20)
        rung.clear()


async def test_stopped_alarm_does_not_ring() -> None:
    """A watch that ended leaves no timer behind."""
    rung = []
    alarm = Alarm(CLOCK, lambda: rung.append(1))
    alarm.set(CLOCK.monotonic())
    alarm.stop()
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0, later.set_result, None)
    await later
    assert rung == []


class Events:
    """A watch that sends what a test puts into `queue`. It raises ValueError for "error"."""

    def __init__(self) -> None:
        self.queue: list[bytes] = []
        self.wake: Callable[[], None] = lambda: None
        self.ended = self.must_load = False
        self.progress = SimpleNamespace(waiting=0)
        self.due = CLOCK.monotonic() + 3600

    def put(self, *frames: bytes) -> None:
        self.queue += frames
        self.wake()

    def take(self) -> list[bytes]:
        frames, self.queue = self.queue, []
        if b"error" in frames:
            raise ValueError("cannot be sent")
        return frames

    def close(self) -> None:
        self.ended = True


class Client(Answer):
    """A client that notes how it gets events; it has room for them at once, or only after a while."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.has_room = True
        self.reads = asyncio.Event()

    async def begin(self) -> None:
        self.got.append(("begins", b""))

    async def send(self, frames: Sequence[bytes]) -> None:
        await self.reads.wait()
        self.got.append(("waited", b"".join(frames)))

    def send_now(self, frames: Sequence[bytes]) -> bool:
        if self.has_room:
            self.got.append(("at once", b"".join(frames)))
        return self.has_room

    async def end(self) -> None:
        self.got.append(("ends", b""))

    def abort(self) -> None:
        self.got.append(("aborted", b""))


@asynccontextmanager
async def pumped(pumps: Pumps, events: Events, client: Client) -> AsyncIterator[asyncio.Task[None]]:
    """Send events to a client meanwhile."""
    task = asyncio.create_task(Pump(cast("WatchSource", cast("Any", events)), client, pumps).run())
    await until(lambda: bool(client.got))
    yield task
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 20)


async def test_events_wait_for_room_only() -> None:
    """Events are sent at once where the client has room for them; else they come in their order once it reads."""
    pumps, events, client = Pumps(CLOCK), Events(), Client()
    async with pumped(pumps, events, client):
        events.put(b"1")
        events.put(b"2")
        assert client.got == [("begins", b"")]  # whoever writes does not send
        await until(lambda: len(client.got) == 2)
        client.has_room = False
        events.put(b"3")
        await until(lambda: not events.queue)
        events.put(b"4")
        events.close()
        client.reads.set()
    assert client.got[1:] == [("at once", b"12"), ("waited", b"3"), ("waited", b"4"), ("ends", b"")]


@pytest.mark.parametrize(("many", "length"), [(MANY_WAITING, 1.0), (0, 0.0)], ids=["many events", "a long slice"])
async def test_watches_with_much_to_send_take_turns(many: int, length: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns of the loop one watch is sent a part of what waits for it, however many have so much."""
    monkeypatch.setattr(turns, "SLICE", length)
    monkeypatch.setattr(turns, "FIRST", length)
    pumps, turn, taken = Pumps(CLOCK), 0, list[int]()

    class Behind(Events):
        def __init__(self) -> None:
            super().__init__()
            self.due = 0.0
            self.progress.waiting = 5 + many

        def take(self) -> list[bytes]:
            if self.ended:
                return []
            taken.append(turn)
            self.progress.waiting -= 1
            self.ended = self.progress.waiting == many
            return [b"event"]

    client = Client()
    client.reads.set()
    watches = [Pump(cast("WatchSource", Behind()), client, pumps) for _ in range(8)]
    sending = [asyncio.create_task(watch.run()) for watch in watches]
    while not all(task.done() for task in sending):
        await asyncio.sleep(0)
        turn += 1
    first = taken[: len(watches)]
    later = taken[len(watches) :]
    assert len(first) == 8
    assert len(later) == len({*later}) == 8 * 4


async def test_error_of_a_watch_ends_it() -> None:
    """An error of what is to be sent is one of the task that sends the watch."""
    events = Events()
    async with pumped(Pumps(CLOCK), events, Client()) as task:
        events.put(b"error")
    with pytest.raises(ValueError, match="cannot be sent"):
        task.result()
