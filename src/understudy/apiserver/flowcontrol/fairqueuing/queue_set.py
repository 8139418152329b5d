"""The queues of one priority level: requests wait in them for seats, and leave them fairly. Upstream: `queueSet`.

All queues with requests advance together in a virtual time R, in seat-seconds that each of them could have had. A
queue's next request begins at `next_start`, and the queue whose next request ends first in R is served: one that asked
for much lately has to wait. Seat-seconds are whole numbers of 10 ns. (KEP-1040, "Fair Queuing for Server Requests".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from understudy.apiserver.flowcontrol.fairqueuing.seat_demand import SeatDemand
from understudy.apiserver.flowcontrol.fairqueuing.shuffle_sharding import hand_of

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


@dataclass(eq=False, slots=True)
class Place:
    """The place of one request in a queue set.

    distinguisher  names its flow within the flow schema
    arrived        when it came, in seconds since 1970
    on_dispatch    is called when it may be executed after it has waited
    details        anything that a dump shows of it
    started        when it was dispatched, in seconds since 1970; 0 while it waits
    waited         the seconds for which it has waited, at the end of that
    """

    schema: str
    distinguisher: str
    work: Work
    arrived: float
    details: Any
    on_dispatch: Callable[[], None] | None = None
    queue: Queue | None = None
    arrival_r: int = 0
    came: float = 0.0
    began: float = 0.0
    started: float = 0.0
    waited: float = 0.0


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

    def bound(self) -> None:
        """Let the next request begin no earlier in virtual time than it came."""
        for oldest in self.waiting:
            self.next_start = max(self.next_start, oldest.arrival_r)
            return


class QueueSet:
    """The seats and queues of a priority level.

    now          returns the time in seconds
    later        calls a function after some seconds
    time_of_day  returns the seconds since 1970
    limit        the seats that there are now
    """

    def __init__(
        self,
        config: QueuingConfig,
        limit: int,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        time_of_day: Callable[[], float],
    ) -> None:
        self.config = QueuingConfig(NO_QUEUES)
        self.limit = limit
        self.queues: list[Queue] = []
        self.without_queue: dict[Place, None] = {}
        self.demand = SeatDemand(now)
        self.waiting = self.executing = self.seats = self.seats_waiting = 0
        self.dispatched = self.rejected = self.cancelled = 0
        self._now = now
        self._later = later
        self._time_of_day = time_of_day
        self._r = self._active = self._enqueued = self._robin = 0
        self._synced = now()
        self.configure(config, limit)

    @property
    def is_idle(self) -> bool:
        """Report whether no request waits or is executed."""
        return not self.waiting and not self.executing

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
        self._sync()
        self.config, self.limit = config, limit
        self.queues += [Queue() for _ in range(config.queues - len(self.queues))]
        self._dispatch()

    def start(self, place: Place) -> str:
        """Execute a request or let it wait; return "", or the reason why it is refused (`StartRequest`)."""
        self._sync()
        place.came = self._synced
        config, seats = self.config, place.work.most_seats
        if config.queues < 1:
            if config.queues == NO_QUEUES and not self._fits(seats):
                self.rejected += 1
                return CONCURRENCY_LIMIT
            self._execute(place)
            return ""
        queue = self._choose(place)
        if self.seats >= self.limit and len(queue.waiting) >= config.length_limit:
            self.rejected += 1
            return QUEUE_FULL
        place.queue, place.arrival_r = queue, self._r
        if queue.is_empty:
            queue.next_start = self._r
            self._active += 1
        if not self.waiting and self.seats < self.limit and self._fits(seats):  # the usual case: nobody is before it
            queue.next_start = max(queue.next_start, self._r) + place.work.size
            self._execute(place)
            return ""
        queue.waiting[place] = None
        queue.work += place.work.size
        self.waiting += 1
        self.seats_waiting += seats
        queue.bound()
        self._note_demand()
        self._dispatch()
        return ""

    def finish(self, place: Place) -> None:
        """End the execution of a request; its seats are free, at once or after its latency."""
        self._sync()
        self.executing -= 1
        queue = place.queue
        if queue is None:
            del self.without_queue[place]
        else:
            del queue.executing[place]
            queue.next_start -= round(SCALE * place.work.seats * (SERVICE - (self._now() - place.began)))
            queue.bound()
            if queue.is_empty:
                self._active -= 1
        if place.work.latency > 0:
            self._later(place.work.latency, lambda: self._free(place))
        else:
            self._free(place)

    def cancel(self, place: Place) -> bool:
        """Take a request that waits out of its queue, as its time is over; report whether it was there."""
        queue = place.queue
        if queue is None or place not in queue.waiting:
            return False
        self._sync()
        self._take_out(queue, place)
        place.waited = self._synced - place.came
        self.rejected += 1
        self.cancelled += 1
        queue.bound()
        if queue.is_empty:
            self._active -= 1
        self._note_demand()
        return True

    def _free(self, place: Place) -> None:
        self._sync()
        seats, queue = place.work.most_seats, place.queue
        self.seats -= seats
        self._note_demand()
        if queue is not None:
            queue.seats -= seats
            if len(self.queues) > self.config.queues and queue.is_empty:
                self._remove(queue)
        self._dispatch()

    def _remove(self, queue: Queue) -> None:
        """Remove a queue that is empty, where there are too many."""
        if queue in self.queues:
            index = self.queues.index(queue)
            del self.queues[index]
            if self._robin >= index:
                self._robin -= 1

    def _sync(self) -> None:
        """Let virtual time advance by what each queue with requests could have had since the last time."""
        now = self._now()
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

    def _dispatch(self) -> None:
        """Execute what waits while there are seats for it."""
        while self.waiting and self.seats < self.limit:
            queue = self._next_queue()
            place = next(iter(queue.waiting))
            if not self._fits(place.work.most_seats):
                return
            self._take_out(queue, place)
            queue.next_start += place.work.size
            self._execute(place)
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

    def _take_out(self, queue: Queue, place: Place) -> None:
        del queue.waiting[place]
        queue.work -= place.work.size
        self.waiting -= 1
        self.seats_waiting -= place.work.most_seats

    def _execute(self, place: Place) -> None:
        place.began, place.started = self._synced, self._time_of_day()
        place.waited = place.began - place.came
        seats, queue = place.work.most_seats, place.queue
        if place.work.final_seats > self.limit and queue is not None:
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
        self._note_demand()

    def _note_demand(self) -> None:
        self.demand.set(self.seats + self.seats_waiting)
