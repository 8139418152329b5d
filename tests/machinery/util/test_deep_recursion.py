"""Recursion in Python that goes deeper than Python's recursion limit."""

from __future__ import annotations

import sys
import threading
from asyncio import new_event_loop, sleep

import pytest

from tests.waiting import PATIENCE, wait_until
from understudy.machinery.util.deep_recursion import (
    call_deeply,
    is_limit_raised,
    on_deep_stack,
    run_to_end,
    start_on_deep_stack,
)


def count(levels: int) -> int:
    """Return the number of levels, by recursion."""
    return 1 + count(levels - 1) if levels else 0


def fail(levels: int) -> None:
    """Raise at the deepest level."""
    if not levels:
        raise ValueError("deepest")
    fail(levels - 1)


def test_recursion_is_deeper_than_the_limit() -> None:
    """A function recurses further than the limit, which is as it was afterwards, and so are the stacks of threads."""
    limits = sys.getrecursionlimit(), threading.stack_size()
    with pytest.raises(RecursionError):
        count(100_000)
    assert call_deeply(count, 100_000) == 100_000
    assert (sys.getrecursionlimit(), threading.stack_size()) == limits


def test_errors_reach_the_caller() -> None:
    """An error that is raised on another stack reaches the caller's thread."""
    with pytest.raises(ValueError, match="deepest"):
        call_deeply(fail, 10_000)


def test_stacks_end() -> None:
    """No thread is left behind."""
    call_deeply(count, 10_000)
    wait_until(lambda: "understudy-deep" not in [thread.name for thread in threading.enumerate()])


def test_limit_stays_raised_for_the_last_stack() -> None:
    """A deep stack that ends leaves the limit to those that are still in use."""

    def nested() -> int:
        on_deep_stack(count, 1)
        return count(100_000)

    limit = sys.getrecursionlimit()
    assert on_deep_stack(nested) == 100_000
    assert sys.getrecursionlimit() == limit


def test_limit_stays_raised_for_threads_that_are_deep() -> None:
    """A thread that has gone deep because another had raised the limit may go on when that one is done."""
    is_raised, is_deep, may_go_on = threading.Event(), threading.Event(), threading.Event()

    def wait_at(levels: int) -> int:
        if levels:
            return 1 + wait_at(levels - 1)
        is_deep.set()
        may_go_on.wait(PATIENCE)
        return count(1_000)

    def raise_limit() -> None:
        is_raised.set()
        is_deep.wait(PATIENCE)

    limit = sys.getrecursionlimit()
    raising = start_on_deep_stack(lambda: on_deep_stack(raise_limit))
    is_raised.wait(PATIENCE)
    deep = start_on_deep_stack(lambda: wait_at(5_000))
    raising.result(PATIENCE)
    may_go_on.set()
    assert deep.result(PATIENCE) == 6_000
    wait_until(lambda: (sys.getrecursionlimit(), is_limit_raised()) == (limit, False))


def test_coroutine_runs_to_its_end() -> None:
    """A coroutine returns its result. It may let others have their turn, and is woken by nothing else."""

    async def counted() -> int:
        return count(100_000)

    assert on_deep_stack(run_to_end, counted()) == 100_000
    run_to_end(sleep(0))
    loop = new_event_loop()

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(RuntimeError, match="suspended"):
        run_to_end(wait())
    loop.close()
