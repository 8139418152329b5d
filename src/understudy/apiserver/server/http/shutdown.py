"""The options of the end of a server that runs as a program, which are kube-apiserver's."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from understudy.apiserver.authentication.options import flag
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.types import NamedTuple, dataclass

_DELAY, _GRACE = "--shutdown-delay-duration", "shutdown-watch-termination-grace-period"


class Termination(NamedTuple):
    """The way a server ends: the time between a signal and its end.

    delay               seconds in which it answers as before, but for /readyz
    sends_retry_after   whether it goes on to listen then, and refuses requests while others are answered
    watch_grace         seconds in which watches end, a part of them at a time; 0: all at once
    """

    delay: float
    sends_retry_after: bool
    watch_grace: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ShutdownOptions:
    """The options of the end of `understudy serve`. Raises ValueError for those that make no sense.

    shutdown_delay_duration    how long requests are answered as before, but for /readyz, which fails, as Go writes it
    shutdown_send_retry_after  whether the server listens until the requests that run are answered, and refuses all
                               others with 429; else nobody can connect meanwhile
    shutdown_watch_termination_grace_period
                               the time in which watches end; by default they end all at once
    """

    shutdown_delay_duration: str = field(
        default="0s", metadata=flag("how long /readyz fails before the end (default: %(default)s)", "DURATION")
    )
    shutdown_send_retry_after: bool = field(
        default=False,
        metadata=flag("answer 429 while the last requests are answered, and not refuse connections", "BOOL"),
    )
    shutdown_watch_termination_grace_period: str = field(
        default="0s", metadata=flag("time over which watches end (default: %(default)s)", "DURATION")
    )

    @cached_property
    def termination(self) -> Termination:
        """Return the way the server ends. Raises ValueError for times that make no sense."""
        delay = parse_duration(self.shutdown_delay_duration)
        grace = parse_duration(self.shutdown_watch_termination_grace_period)
        if delay is None or grace is None:
            raise ValueError(f"{_DELAY if delay is None else f'--{_GRACE}'}: want a time such as 15s")
        if delay < 0:
            raise ValueError(f"{_DELAY} can not be negative value")
        if grace < 0:
            raise ValueError(f"{_GRACE}, if provided, can not be a negative value")
        return Termination(delay / 1e9, self.shutdown_send_retry_after, grace / 1e9)
