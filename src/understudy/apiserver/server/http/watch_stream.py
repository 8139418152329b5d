"""Sends a watch to its client, in a chunked body or over a WebSocket, until it ends or the client goes away.

A client in the server's own process gets it by calls of a function.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from multidict import CIMultiDict

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.http.watch_answers import Answer, Calls, Chunks, Messages
from understudy.apiserver.server.http1 import websocket
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.target import InvalidTargetError, read_target
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.errors import StatusError
from understudy.machinery.util import timers
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.deep_recursion import start_on_deep_stack
from understudy.machinery.util.regex import regex

_LEAST_ENDS = 200.0  # watches that end in a second when a server drains
MANY_WAITING = 1000  # events of one watch of which others get a part between two parts
_UPGRADE = regex(r"(^|,)\s*upgrade\s*($|,)", re.IGNORECASE)
log = logging.getLogger("understudy")


class Pumps:
    """The open watches of one server, so that it can end them.

    woken  those that may have something to send
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._open: dict[WatchSource, Pump] = {}
        self.woken: deque[Pump] = deque()
        self._inside: set[asyncio.Task[None]] = set()  # that send to threads of this process
        self._calls: dict[WatchSource, Calls] = {}  # what they send
        self._stopped = False

    @property
    def sources(self) -> list[WatchSource]:
        """Return the watches that are open, those that began first in front."""
        return [*self._open]

    def add(self, source: WatchSource, pump: Pump) -> None:
        """Remember a watch that is being sent; end it now if the server is stopping."""
        self._open[source] = pump
        if self._stopped:
            source.close()

    def discard(self, source: WatchSource) -> None:
        """Forget a watch that has been sent."""
        self._calls.pop(source, None)
        self._open.pop(source, None)

    def deliver(self) -> None:
        """Send what the watches have that were woken, in the order in which they were."""
        turns, woken = Turns(), self.woken
        while woken:
            woken.popleft().deliver()
            if turns.is_over:
                break
        if woken:
            asyncio.get_running_loop().call_soon(self.deliver)

    def send_inside(self, source: WatchSource, frames: Frames) -> Stop:
        """Begin to send a watch to a thread of this process; return what ends it, from any thread."""
        loop = asyncio.get_running_loop()
        calls = self._calls[source] = Calls(frames)
        task = asyncio.create_task(_send_inside(source, calls, self))
        self._inside.add(task)
        task.add_done_callback(self._inside.discard)

        def stop() -> None:
            with suppress(RuntimeError):  # the loop is closed, and the watch has ended with it
                loop.call_soon_threadsafe(self._end, source)

        return stop

    def close(self) -> None:
        """End every open watch, as if its time were up."""
        for source in list(self._open):
            self._end(source)

    async def drain(self, seconds: float) -> None:
        """End the watches that are open a part at a time, all within some seconds, and every one that begins.

        Upstream: `RateLimitedSafeWaitGroup`.
        """
        self._stopped, left = True, self.sources
        rate = max(len(left) / seconds, _LEAST_ENDS) if seconds else 0.0
        for number, source in enumerate(left):
            if rate and number:
                await asyncio.sleep(1 / rate)
            self._end(source)

    async def stop(self) -> None:
        """End every open watch, and every one that begins from now on; wait for the ends of those in this process."""
        self._stopped = True
        self.close()
        if self._inside:
            await asyncio.wait(self._inside)

    def _end(self, source: WatchSource) -> None:
        """End a watch, if it is open."""
        if pump := self._open.get(source):
            source.close()
            pump.wake()
        if calls := self._calls.get(source):
            calls.release()


class Signal:
    """Wakes the one task that waits for it; like `asyncio.Event`, and at less cost for each of many watches.

    is_set  whether it was set since the task has cleared it
    waiter  what the task waits for, if it does
    """

    __slots__ = ("is_set", "waiter")

    def __init__(self) -> None:
        self.is_set = False
        self.waiter: asyncio.Future[None] | None = None

    def set(self, error: Exception | None = None) -> None:
        """Wake the task, or let it not wait. An error is raised where it waits."""
        waiter, self.waiter, self.is_set = self.waiter, None, True
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def next(self) -> asyncio.Future[None]:
        """Return a future for the task to await, which is done when it is set the next time."""
        self.waiter = asyncio.get_running_loop().create_future()
        return self.waiter


class Alarm:
    """Calls `ring` at a time that can be set again and again.

    at  when it rings, 0.0 if it is not set. Mostly that is the same from event to event, and need not be set again
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: timers.Alarm | None = None
        self.at = 0.0

    def set(self, at: float) -> None:
        """Let the alarm ring at a time, in seconds of `Clock.monotonic`, and at no other."""
        if self.at == at:
            return
        self.stop()
        self.at = at
        self._timer = timers.call_later(self._clock, max(at - self._clock.monotonic(), 0), self._rung)

    def stop(self) -> None:
        """Let the alarm not ring any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self.at = None, 0.0

    def _rung(self) -> None:
        self._timer, self.at = None, 0.0  # a loop's clock may be early, then it is set again
        self._ring()


async def pump(exchange: Exchange, source: WatchSource, headers: CIMultiDict[str], pumps: Pumps) -> None:
    """Send a watch as the client wants it."""
    try:
        if not isinstance(exchange, Http1Exchange) or not _wants_websocket(exchange.headers):
            await Pump(source, Chunks(exchange, headers), pumps).run()
        elif refusal := _handshake_refusal(exchange.headers):
            await exchange.send_page(f"HTTP/1.1 {refusal}")
        else:
            await Pump(source, Messages(exchange, headers, source), pumps).run()
    finally:
        source.close()


def _wants_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("Upgrade", "").lower() == "websocket" and bool(_UPGRADE.search(headers.get("Connection", "")))


def _handshake_refusal(headers: Mapping[str, str]) -> str:
    """Return the status and page that refuse a WebSocket, "" if it may begin. Upstream: `websocket.Server`."""
    if refusal := websocket.handshake_refusal(headers):
        return refusal
    if not _is_origin(headers.get("Origin", "")):
        return "403 Forbidden\r\n\r\n"
    return "400 Bad Request\r\n\r\n" if len(spoken_protocols(headers)) > 1 else ""


async def _send_inside(source: WatchSource, calls: Calls, pumps: Pumps) -> None:
    """Send a watch to a thread of this process; tell it of the end, whatever that is."""
    try:
        await Pump(source, calls, pumps).run()
    finally:
        source.close()
        calls.finish()


def _is_origin(text: str) -> bool:
    """Report whether a text is a URL, as Go reads it (`url.ParseRequestURI`)."""
    try:
        read_target("GET", text)
    except InvalidTargetError:
        return False
    return True


def _load(source: WatchSource, woken: Signal) -> None:
    """Let a watch prepare its next frame in a thread: its own one if that may wait for a webhook.

    A frame that cannot be prepared ends the watch, as in the real server.
    """

    def done(loading: asyncio.Future[None]) -> None:
        if not loading.cancelled() and (error := loading.exception()):
            source.close()
            if not isinstance(error, StatusError):
                log.error("a watch cannot go on", exc_info=error)
        woken.set()

    function, request = source.begin_load()
    if request is None:
        asyncio.wrap_future(start_on_deep_stack(function)).add_done_callback(done)
    else:
        asyncio.ensure_future(request.make(function)).add_done_callback(done)


class Pump:
    """Sends a watch until it ends or the client goes away.

    Between two writes its task waits. It need not wake for what the client has room for.
    """

    __slots__ = ("_alarm", "_answer", "_is_woken", "_pumps", "_signal", "_source", "_unsent")

    def __init__(self, source: WatchSource, answer: Answer, pumps: Pumps) -> None:
        self._source = source
        self._answer = answer
        self._pumps = pumps
        self._signal = Signal()
        self._alarm = Alarm(pumps.clock, self.wake)
        self._unsent: list[bytes] = []
        self._is_woken = False

    def wake(self) -> None:
        """Look soon at what there is to send, together with all others that are woken meanwhile."""
        if self._is_woken:
            return
        self._is_woken, woken = True, self._pumps.woken
        if not woken:
            asyncio.get_running_loop().call_soon(self._pumps.deliver)
        woken.append(self)

    def deliver(self) -> None:
        """Send what there is to send, if nothing has to be waited for; wake the task for everything else."""
        signal, source, self._is_woken = self._signal, self._source, False
        if signal.waiter is None:
            signal.is_set = True
            return
        try:
            frames = source.take()
        except Exception as error:
            signal.set(error)
            return
        if frames and not self._answer.send_now(frames):
            self._unsent = frames
        elif (due := source.due) and not source.ended and not source.must_load:
            if due != self._alarm.at:
                self._alarm.set(due)
            return
        signal.set()

    async def run(self) -> None:
        """Send the watch."""
        source, answer, signal = self._source, self._answer, self._signal
        source.wake = self.wake
        self._pumps.add(source, self)
        has_sent = False
        try:
            await answer.begin()
            while True:
                signal.is_set, turns = False, Turns()
                frames, self._unsent = self._unsent or source.take(), []
                is_long = turns.is_over
                if frames:
                    await answer.send(frames)
                elif source.ended:
                    break
                if source.must_load:
                    _load(source, signal)
                due = source.due
                if source.ended or signal.is_set or not due:  # there is more to take
                    if is_long or source.progress.waiting > MANY_WAITING:
                        await turns.next()  # of all watches that take so long, or have so much to send
                    elif has_sent:
                        await asyncio.sleep(0)  # others have their turn, however fast the client reads
                    has_sent = True
                    continue
                self._alarm.set(due)
                await signal.next()
                has_sent = False
            await answer.end()
        except ConnectionError:  # the client went away, which is how most watches end; or a fault cuts this one
            answer.abort()
        finally:
            self._alarm.stop()
            self._pumps.discard(source)
            # Nothing refers back: Python's search for cycles may never look at it (see `program.py`).
            source.wake, signal.waiter = lambda: None, None
            del self._alarm
