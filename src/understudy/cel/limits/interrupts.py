"""What the evaluations for one request may take: some work on an event loop, or the time of the request in a thread.

Upstream: `InterruptCheckFrequency` and `checkInterrupt` of cel-go. Work is counted in units of cost and in elements
that are looked at; each takes about a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Any, Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

WORK_ON_LOOP: Final = 10_000
"""The work that evaluations for one request may do on an event loop, which takes about 10 ms."""
_INTERVAL = 2_000  # work between two looks at the clock


class EvaluationTakesLongError(Exception):
    """The evaluations for a request have done all the work that they may do where it is answered."""


class EvaluationInterruptedError(Exception):
    """The time of the request that an evaluation was made for is over."""


class Beside(Protocol):
    """Calls a function that evaluates expressions for long, beside where its request is answered."""

    async def __call__(self, function: Callable[[], T], /) -> T:
        """Return the result of the function. Raises as it does, EvaluationInterruptedError for one."""


class Outside(Protocol):
    """Calls a function where the request is answered that an evaluation is made for."""

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the function. Raises as it does."""


def here(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function where it is, and return its result. Raises as it does."""
    return function(*args, **kwargs)


class Meter:
    """Counts the work of the evaluations for one request.

    most      the work that they may do where the request is answered
    beside    makes those that would do more; without, they end with EvaluationTakesLongError
    deadline  the moment of `time.monotonic` at which they end
    outside   makes the calls for which an evaluation depends on others than its variables: who has which rights
    """

    __slots__ = ("_deadline", "_done", "_most", "_pause", "beside", "outside")

    def __init__(
        self, *, most: float = inf, beside: Beside | None = None, deadline: float = inf, outside: Outside = here
    ) -> None:
        self._most = most
        self._deadline = deadline
        self.beside = beside
        self.outside = outside
        self.begin()

    def begin(self) -> None:
        """Count from the beginning: others have had their turn."""
        self._done = 0
        self._pause = self._most if self._deadline == inf else min(self._most, _INTERVAL)

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


async def evaluated(function: Callable[[], T]) -> T:
    """Return the result of a function that evaluates expressions for a request: made beside where the request is
    answered if it takes long.

    It is called once more then, from its beginning, so that it may change nothing before all is evaluated. Raises what
    it raises, and EvaluationInterruptedError once the time of the request is over.
    """
    meter = _current.get()
    try:
        return function()
    except EvaluationTakesLongError:
        if meter.beside is None:
            raise
    result = await meter.beside(function)
    meter.begin()
    return result
