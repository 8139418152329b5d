"""Requests of a simulation that have to succeed, whatever faults they meet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from understudy.apiserver.controllers.framework.backoff import Backoff
from understudy.machinery.errors import StatusError
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import sleep

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between two tries, and up to twice that


async def until_answered(clock: Clock, request: Callable[[], Awaitable[T]], unless: Collection[str] = ()) -> T | None:
    """Make a request until it succeeds, with growing pauses; return its answer.

    unless  reasons of errors that are answers, too: None is returned then
    """
    backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, clock=clock.monotonic)
    while True:
        try:
            return await request()
        except StatusError as why:
            if why.reason in unless:
                return None
        except ConnectionError:
            pass  # whether it has been done or not is seen by the next try
        await sleep(clock, backoff.delay())
