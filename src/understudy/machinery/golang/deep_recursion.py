"""Recursion over values that nest deeper than one stack of Python allows.

The real server takes bodies that are nested 10,000 levels deep. Code that walks over values recurses plainly, and the
few who call it for a whole request call it again on a deep stack when it raises RecursionError. So nobody measures how
deep a value is, and ordinary requests pay nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

FRAMES = 400_000  # of Python; the deepest walks take some twenty for each of 10,000 levels
STACK_BYTES = 512 << 20  # only what is used is ever allocated

_raising = threading.Lock()
_limits: list[int] = []  # the recursion limit that was in force, once for every deep stack in use


def call_deeply(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and once more on a deep stack if it recurses too deep for this one. It must bear being called
    twice. Raises what it raises."""
    try:
        return function(*args, **kwargs)
    except RecursionError:
        return on_deep_stack(function, *args, **kwargs)


def on_deep_stack(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new thread with a large stack, and wait for it. Return its result, or raise what it raises.

    The recursion limit of Python concerns all threads; it is raised only for as long as this takes.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(function(*args, **kwargs))
        except BaseException as error:  # handed over to the caller's thread
            outcome.set_exception(error)

    with _raised_recursion_limit():
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=run, name="understudy-deep")
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
    return outcome.result()


def run_on_deep_stack(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends on a deep stack; return its result, or raise what it raises."""
    return on_deep_stack(_run, coroutine)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine suspended on a deep stack, where nothing wakes it")


@contextmanager
def _raised_recursion_limit() -> Iterator[None]:
    """Raise the recursion limit until the last deep stack that is in use has ended."""
    with _raising:
        _limits.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(FRAMES, _limits[0]))
    try:
        yield
    finally:
        with _raising:
            limit = _limits[0]
            _limits.pop()
            if not _limits:
                sys.setrecursionlimit(limit)
