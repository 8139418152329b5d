"""Recursion that goes deeper than one stack of Python allows.

cel-go allows expressions that are nested some 250 levels deep in several ways at once. Python's recursion limit is too
low for them, and raising it would concern every thread of the process; a new thread has a stack of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LEVELS = 60  # decorated calls on one stack; each may take up to six frames


class _Depth(threading.local):
    levels = 0


_depth = _Depth()


def deep_recursion(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a recursive function so that every `LEVELS` levels go on in a new thread, which the caller waits for."""

    @wraps(function)
    def recurse(*args: P.args, **kwargs: P.kwargs) -> T:
        if _depth.levels == LEVELS:
            return _in_new_thread(recurse, *args, **kwargs)
        _depth.levels += 1
        try:
            return function(*args, **kwargs)
        finally:
            _depth.levels -= 1

    return recurse


def _in_new_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of a function called in a thread of its own, or raise what it raises."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(function(*args, **kwargs))
        except BaseException as error:  # handed over to the caller's thread
            outcome.set_exception(error)

    threading.Thread(target=run, name="understudy-cel").start()
    return outcome.result()
