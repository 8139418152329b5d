"""Keys to look at, each by one worker at a time, and again after growing delays if that fails.

    queue = WorkQueue()
    queue.add(key)
    await queue.process(sync, workers=10)

Upstream: `k8s.io/client-go/util/workqueue`, `TypedRateLimitingInterface`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import Generic, TypeVar

from understudy.apiserver.storage.turns import Turns
from understudy.machinery.errors import StatusError
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock
from understudy.machinery.util.memory import gives_back, shrink
from understudy.machinery.util.rate_limit import TokenBucket
from understudy.machinery.util.timers import Alarm, call_later

log = logging.getLogger(__name__)

Delays = tuple[float, float]  # the first and the longest delay until another try, in seconds

DELAYS: Delays = 0.005, 1000.0  # the first is doubled with each failure
RETRIES_PER_SECOND, RETRY_BURST = 10.0, 100  # of all keys together

K = TypeVar("K", bound=Hashable)


class TryAgainError(Exception):
    """Something about a key that cannot be done yet, which is no error of the program.

    delay  seconds after which to look at the key again; None for the growing delays of failures
    """

    def __init__(self, message: str, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class WorkQueue(Generic[K]):
    """Holds keys in order, each once. One that is added while a worker has it is handed out again afterwards.

    name    what logs begin with
    clock   by which keys wait
    delays  after failures of a key
    """

    def __init__(self, name: str = "", clock: Clock = SYSTEM_CLOCK, delays: Delays = DELAYS) -> None:
        self._delays = delays
        self._clock = clock
        self._prefix = f"{name}: " if name else ""
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()  # to be handed out
        self._processing: set[K] = set()
        self._waiting: dict[K, tuple[float, Alarm]] = {}
        self._failures: dict[K, int] = {}
        self._retries = TokenBucket(RETRIES_PER_SECOND, RETRY_BURST, clock.monotonic)
        self._changed = asyncio.Event()
        gives_back(self)

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def is_idle(self) -> bool:
        """Report whether no key is to be looked at now or being looked at. Delayed keys do not count."""
        return not self._ready and not self._processing

    def add(self, key: K) -> None:
        """Add a key, unless it waits for a worker already."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._ready.append(key)
            self._changed.set()

    def add_all(self, keys: Iterable[K]) -> None:
        """Add keys, of which there may be very many."""
        new = dict.fromkeys(keys)
        for key in new.keys() & self._dirty:
            del new[key]
        self._dirty.update(new)
        busy = new.keys() & self._processing
        self._ready.extend([key for key in new if key not in busy] if busy else new)
        self._changed.set()

    def add_after(self, key: K, delay: float) -> None:
        """Add a key after some seconds; the earliest of several delays counts."""
        if delay <= 0:
            self.add(key)
            return
        when = self._clock.monotonic() + delay
        waiting = self._waiting.get(key)
        if waiting is not None:
            if waiting[0] <= when:
                return
            waiting[1].cancel()
        self._waiting[key] = when, call_later(self._clock, delay, partial(self._add_delayed, key))

    def add_rate_limited(self, key: K) -> None:
        """Add a key again after a failure, after a delay that doubles with each until `forget`."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        first, longest = self._delays
        delay = min(first * 2.0 ** min(failures - 1, 64), longest)
        self.add_after(key, max(delay, self._retries.reserve()))

    def forget(self, key: K) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return the number of failures of a key since it was forgotten. Upstream: `NumRequeues`."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for the next key and return it; the worker calls `done` with it afterwards."""
        await self._wait()
        return self._take()

    async def _wait(self) -> None:
        """Wait until there is a key."""
        while not self._ready:
            self._changed.clear()
            await self._changed.wait()

    def _take(self) -> K:
        """Hand out the next key."""
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """Take a key back from a worker."""
        self._processing.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._changed.set()

    async def process(self, sync: Callable[[K], Awaitable[None]], workers: int = 1) -> None:
        """Run workers over the keys until cancelled. A key whose `sync` fails is tried again later."""
        if workers == 1:  # a group of tasks would take as long as a controller that has nothing to do
            await self._work(sync)
            return
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers - 1):
                tasks.create_task(self._work(sync))
            await self._work(sync)

    async def _work(self, sync: Callable[[K], Awaitable[None]]) -> None:
        turns = Turns()
        while True:
            if not self._ready:
                await self._wait()
                turns = Turns()
            key = self._take()
            try:
                await sync(key)
            except Exception as why:  # no error of one key keeps the others waiting
                self._try_again(key, why)
            else:
                self.forget(key)
            finally:
                self.done(key)
            if turns.is_over:
                await turns.next()

    def _try_again(self, key: K, why: Exception) -> None:
        if isinstance(why, TryAgainError) and why.delay is not None:
            self.add_after(key, why.delay)
            return
        expected = isinstance(why, StatusError | ConnectionError | TryAgainError)
        level = logging.INFO if expected else logging.ERROR
        log.log(level, "%s%s: %s", self._prefix, key, why, exc_info=None if expected else why)
        self.add_rate_limited(key)

    def stop(self) -> None:
        """Drop the keys that wait for their time."""
        for _, alarm in self._waiting.values():
            alarm.cancel()
        self._waiting.clear()

    def give_back(self) -> None:
        """Drop the room of keys that are done, and let those who wait for keys wait anew."""
        shrink(self._dirty, self._processing, self._waiting, self._failures)
        self._changed.set()

    def _add_delayed(self, key: K) -> None:
        del self._waiting[key]
        self.add(key)
