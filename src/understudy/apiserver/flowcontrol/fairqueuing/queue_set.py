"""The queues of one priority level: requests wait in them for seats, and leave them fairly. Upstream: `queueSet`.

All queues with requests advance together in a virtual time R, in seat-seconds that each of them could have had. A
queue's next request begins at `next_start`, and the queue whose next request ends first in R is served: one that asked
for much lately has to wait. Seat-seconds are whole numbers of 10 ns. (KEP-1040, "Fair Queuing for Server Requests".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any

from understudy.apiserver.flowcontrol.fairqueuing.seat_demand import Limits, SeatDemand
from understudy.apiserver.flowcontrol.fairqueuing.shuffle_sharding import hand_of
from understudy.machinery.types import NamedTuple, dataclass

SCALE = 10**8  # seat-seconds are counted in parts of this size
SERVICE = 0.003  # seconds that a request is taken to last before it has ended (`estimatedServiceDuration`)
EXEMPT, NO_QUEUES = -1, 0  # numbers of queues: of a level without limit, and of one that refuses at once
CONCURRENCY_LIMIT, QUEUE_FULL, TIME_OUT = "concurrency-limit", "queue-full", "time-out"


class Work(NamedTuple):
    """The work that a request is taken to be (`WorkEstimate`).

    seats        those that it takes while it is executed
    final_seats  those that it takes for `latency` seconds after its end
    most_seats   those that are taken in both phases
    size         the whole work in seat-seconds
    """

    seats: int
    final_seats: int
    latency: float
    most_seats: int
    size: int


def work_of(seats: int, final_seats: int = 0, latency: float = 0.0) -> Work:
    """Return the work of a request that takes some seats, and some others for some seconds after its end."""
    size = round(SCALE * (seats * SERVICE + final_seats * latency))
    return Work(seats, final_seats, latency, max(seats, final_seats), size)


ONE_SEAT = work_of(1)


class QueuingConfig(NamedTuple):
    """The queues of a level: how many, how many of them each flow uses, and how many requests wait in each."""

    queues: int
    hand_size: int = 1
    length_limit: int = 0

    @property
    def capacity(self) -> int:
        """Return the number of requests that can wait, 1 where none can."""
        return max(self.queues, 1) * max(self.length_limit, 1)


class Dispatch(NamedTuple):
    """The last dispatch from a queue, in virtual times: when it was, and where it began in its queue (`start`).

    starts      the first and the last `next_start` of the queues in which requests waited
    discounted  the same without the work that is done already
    """

    r: int
    start: int
    starts: tuple[int, int]
    discounted: tuple[int, int]


@dataclass(eq=False)  # with slots, each request would set what has a default
class Place:
    """The place of one request in a queue set.

    distinguisher  names its flow within the flow schema
    details        anything that a dump shows of it
    came           when it came, in seconds of the server's clock
    began          when it was dispatched, or gave up waiting; None while it waits
    on_dispatch    is called when it may be executed after it has waited
    length         how many requests there were in its queue when it had come into it, 0 without a queue
    """

    schema: str
    distinguisher: str
    work: Work
    details: Any
    came: float
    began: float | None = field(default=None, init=False)
    on_dispatch: Callable[[], None] | None = field(default=None, init=False)
    queue: Queue | None = field(default=None, init=False)
    arrival_r: int = field(default=0, init=False)
    length: int = field(default=0, init=False)


@dataclass(eq=False, slots=True)
class Queue:
    """A queue. `work` are the seat-seconds of what waits in it, `seats` those taken by what came out of it."""

    waiting: dict[Place, None] = field(default_factory=dict)
    executing: dict[Place, None] = field(default_factory=dict)
    next_start: int = 0
    seats: int = 0
    work: int = 0

    @property
    def is_empty(self) -> bool:
        """Report whether nothing waits in it or came out of it and is executed."""
        return not self.waiting and not self.executing

    @property
    def discounted(self) -> int:
        """Return `next_start` without what the requests that are executed are taken to have done."""
        return self.next_start - ONE_SEAT.size * self.seats

    def bound(self) -> None:
        """Let the next request begin no earlier in virtual time than it came."""
        for oldest in self.waiting:
            self.next_start = max(self.next_start, oldest.arrival_r)
            return


class QueueSet:
    """The seats and queues of a priority level.

    now    returns the time in seconds
    later  calls a function after some seconds
    limit  the seats that there are now
    share  a part of the server's seats, in which use is measured while there are none here

    takes_lone     whether a request of one seat that nothing is beside is executed at once, out of a queue if there are
    executing      how many requests are executed
    last_dispatch  the last one from a queue, None before the first
    """

    def __init__(
        self,
        config: QueuingConfig,
        limit: int,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        share: int = 1,
    ) -> None:
        self.config = QueuingConfig(NO_QUEUES)
        self.limit = limit
        self.share = share
        self.queues: list[Queue] = []
        self.without_queue: dict[Place, None] = {}
        self._synced = now()
        self.demand = SeatDemand(self._synced)
        self.executing = self.waiting = self.seats = self.seats_waiting = 0
        self.last_dispatch: Dispatch | None = None
        self.dispatched = self.rejected = self.cancelled = 0
        self._now = now
        self._later = later
        self._r = self._active = self._enqueued = self._robin = 0
        self.configure(config, limit)

    @property
    def is_idle(self) -> bool:
        """Report whether no request waits or is executed."""
        return not self.waiting and not self.executing

    @property
    def limits(self) -> Limits:
        """Return the most that there can be, for measures of use."""
        return Limits(self.limit or self.share, self.config.capacity)

    @property
    def virtual_time(self) -> int:
        """Return the virtual time R in seat-seconds, at the last change."""
        return self._r

    def all_waiting(self) -> Iterator[Place]:
        """Yield the requests that wait."""
        return (place for queue in self.queues for place in queue.waiting)

    def all_executing(self) -> Iterator[Place]:
        """Yield the requests that are executed."""
        yield from self.without_queue
        for queue in self.queues:
            yield from queue.executing

    def configure(self, config: QueuingConfig, limit: int) -> None:
        """Set the queues and the seats. Queues that are too many go when they are empty."""
        now = self._now()
        self._sync(now)
        self.config, self.limit = config, limit
        self.takes_lone = config.queues == EXEMPT or (config.queues > NO_QUEUES and limit > 0)
        self.queues += [Queue() for _ in range(config.queues - len(self.queues))]
        self._dispatch(now)

    def start(self, place: Place) -> str:
        """Execute a request or let it wait; return "", or the reason why it is refused (`StartRequest`)."""
        now, config, seats = place.came, self.config, place.work.most_seats
        if config.queues < 1:
            if self._active:
                self._sync(now)
            if config.queues == NO_QUEUES and not self._fits(seats):
                self.rejected += 1
                return CONCURRENCY_LIMIT
            self._execute(place, now)
            return ""
        self._sync(now)
        queue = self._choose(place)
        if self.seats >= self.limit and len(queue.waiting) >= config.length_limit:
            self.rejected += 1
            return QUEUE_FULL
        place.queue, place.arrival_r = queue, self._r
        if queue.is_empty:
            queue.next_start = self._r
            self._active += 1
        if not self.waiting and self.seats < self.limit and self._fits(seats):  # the usual case: nobody is before it
            start, discounted = max(queue.next_start, self._r), queue.discounted
            place.length, self.last_dispatch = 1, Dispatch(self._r, start, (start, start), (discounted, discounted))
            queue.next_start = start + place.work.size
            self._execute(place, now)
            return ""
        queue.waiting[place] = None
        place.length = len(queue.waiting)
        queue.work += place.work.size
        self.waiting += 1
        self.seats_waiting += seats
        queue.bound()
        self._note_load(now)
        self._dispatch(now)
        return ""

    def finish(self, place: Place, now: float) -> None:
        """End the execution of a request; its seats are free, at once or after its latency."""
        if self._active:
            self._sync(now)
        self.executing -= 1
        queue = place.queue
        if queue is None:
            del self.without_queue[place]
        else:
            del queue.executing[place]
            assert place.began is not None
            queue.next_start -= round(SCALE * place.work.seats * (SERVICE - (now - place.began)))
            if queue.waiting:
                queue.bound()
            elif not queue.executing:
                self._active -= 1
        if place.work.latency > 0:
            self._note_load(now)
            self._later(place.work.latency, partial(self._free_late, place))
        else:
            self._free(place, now)

    def cancel(self, place: Place) -> bool:
        """Take a request that waits out of its queue, as its time is over; report whether it was there."""
        queue = place.queue
        if queue is None or place not in queue.waiting:
            return False
        place.began = now = self._now()
        self._sync(now)
        self._take_out(queue, place)
        self.rejected += 1
        self.cancelled += 1
        queue.bound()
        if queue.is_empty:
            self._active -= 1
        self._note_load(now)
        return True

    def add_lone(self, number: int, seconds: float, last: float) -> None:
        """Note requests of one seat that came one by one while nothing else was here, and have ended.

        seconds  for how long they were executed, and `last` for how long the last one
        """
        self.demand.add_lone(seconds)
        self.dispatched += number
        if self.config.queues > 0:
            self._enqueued += number
            self._r += round(SCALE * seconds)
            r = self._r - round(SCALE * last)
            self.last_dispatch = Dispatch(r, r, (r, r), (r, r))

    def _note_load(self, now: float) -> None:
        self.demand.set((self.executing, self.seats, self.waiting, self.seats_waiting), now)

    def _free_late(self, place: Place) -> None:
        now = self._now()
        self._sync(now)
        self._free(place, now)

    def _free(self, place: Place, now: float) -> None:
        seats, queue = place.work.most_seats, place.queue
        self.seats -= seats
        self._note_load(now)
        if queue is not None:
            queue.seats -= seats
            if len(self.queues) > self.config.queues and queue.is_empty:
                self._remove(queue)
        if self.waiting:
            self._dispatch(now)

    def _remove(self, queue: Queue) -> None:
        """Remove a queue that is empty, where there are too many."""
        if queue in self.queues:
            index = self.queues.index(queue)
            del self.queues[index]
            if self._robin >= index:
                self._robin -= 1

    def _sync(self, now: float) -> None:
        """Let virtual time advance by what each queue with requests could have had since the last time."""
        if self._active:
            seats = min(self.seats + self.seats_waiting, self.limit)
            self._r += round(SCALE * seats / self._active * (now - self._synced))
        self._synced = now

    def _fits(self, seats: int) -> bool:
        """Report whether there are free seats; a request that asks for more than all waits until it is alone."""
        return not self.executing if seats > self.limit else self.seats + seats <= self.limit

    def _choose(self, place: Place) -> Queue:
        """Return the queue of a flow's hand in which least work waits (`shuffleShardLocked`)."""
        hand = hand_of(place.schema, place.distinguisher, self.config.queues, self.config.hand_size)
        offset = self._enqueued % len(hand)
        self._enqueued += 1
        if not self.waiting:
            return self.queues[hand[offset]]
        return min((self.queues[index] for index in (*hand[offset:], *hand[:offset])), key=lambda queue: queue.work)

    def _dispatch(self, now: float) -> None:
        """Execute what waits while there are seats for it."""
        while self.waiting and self.seats < self.limit:
            queue = self._next_queue()
            place = next(iter(queue.waiting))
            if not self._fits(place.work.most_seats):
                return
            self._note_dispatch(queue)
            self._take_out(queue, place)
            queue.next_start += place.work.size
            self._execute(place, now)
            queue.bound()
            if place.on_dispatch is not None:
                place.on_dispatch()

    def _next_queue(self) -> Queue:
        """Return the queue whose next request ends first in virtual time; among such, the next one in turn."""
        count, first = len(self.queues), self._robin + 1
        turn = ((first + step) % count for step in range(count))
        ends = {
            index: queue.next_start + next(iter(queue.waiting)).work.size
            for index in turn
            if (queue := self.queues[index]).waiting
        }
        self._robin = min(ends, key=ends.__getitem__)
        return self.queues[self._robin]

    def _note_dispatch(self, queue: Queue) -> None:
        """Note that a queue's next request is dispatched now."""
        busy = [each for each in self.queues if each.waiting]
        starts, discounted = [each.next_start for each in busy], [each.discounted for each in busy]
        bounds = (min(starts), max(starts)), (min(discounted), max(discounted))
        self.last_dispatch = Dispatch(self._r, queue.next_start, *bounds)

    def _take_out(self, queue: Queue, place: Place) -> None:
        del queue.waiting[place]
        queue.work -= place.work.size
        self.waiting -= 1
        self.seats_waiting -= place.work.most_seats

    def _execute(self, place: Place, now: float) -> None:
        place.began = now
        seats, queue = place.work.most_seats, place.queue
        if queue is not None and place.work.final_seats > self.limit:
            latency = place.work.final_seats * place.work.latency / self.limit
            place.work = work_of(place.work.seats, self.limit, latency)
            seats = place.work.most_seats
        self.dispatched += 1
        self.executing += 1
        self.seats += seats
        if queue is None:
            self.without_queue[place] = None
        else:
            queue.executing[place] = None
            queue.seats += seats
        self._note_load(now)
