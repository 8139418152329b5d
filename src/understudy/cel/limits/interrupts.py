"""What the evaluations for one request may take: some work on an event loop, or the time of the request in a thread.

Upstream: `InterruptCheckFrequency` and `checkInterrupt` of cel-go. Work is counted in units of cost and in elements
that are looked at; each takes about a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Final

WORK_ON_LOOP: Final = 10_000
"""The work that evaluations for one request may do on an event loop, which takes about 10 ms."""
_INTERVAL = 2_000  # work between two looks at the clock


class EvaluationTakesLongError(Exception):
    """The evaluations for a request have done all the work that they may do on an event loop."""


class EvaluationInterruptedError(Exception):
    """The time of the request that an evaluation was made for is over."""


class Meter:
    """Counts the work of the evaluations for one request.

    `most` is the work that they may do, `deadline` the moment of `time.monotonic` at which they end.
    """

    __slots__ = ("_deadline", "_done", "_most", "_pause")

    def __init__(self, *, most: float = inf, deadline: float = inf) -> None:
        self._done = 0
        self._most = most
        self._deadline = deadline
        self._pause = most if deadline == inf else min(most, _INTERVAL)

    def end(self) -> None:
        """End the evaluations, whatever is left: no request waits for them any more. Any thread may ask for it."""
        self._deadline = self._pause = -inf

    def count(self, work: int) -> None:
        """Count work. Raises EvaluationTakesLongError, EvaluationInterruptedError."""
        self._done += work
        if self._done > self._pause:
            self._check()

    def _check(self) -> None:
        if self._done > self._most:
            raise EvaluationTakesLongError
        self._pause = min(self._done + _INTERVAL, self._most)
        if monotonic() > self._deadline:
            self._pause = -inf
            raise EvaluationInterruptedError


_UNLIMITED = Meter()
_current: ContextVar[Meter] = ContextVar("meter", default=_UNLIMITED)


def current_meter() -> Meter:
    """Return the meter of the request that is being answered; one without limits if there is none."""
    return _current.get()


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Let a meter count the evaluations meanwhile."""
    token = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(token)
