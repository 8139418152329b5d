"""Recursion over values that nest deeper than one stack of Python allows.

The real server takes bodies that are nested 10,000 levels deep. Code that walks over values recurses plainly, and the
few who call it for a whole request call it again on a deep stack when it raises RecursionError. So no code measures how
deep a value is, and ordinary requests pay nothing.

Python has one recursion limit for all threads. While it is raised, a thread with an ordinary stack that recurses too
deep would crash the process. So event loops run in threads with deep stacks as well; a guard of `start_on_deep_stack`
stops those that do not. And it comes down only when no thread is deeper than the ordinary limit allows: one that runs
beside may have recursed further than it would have been let.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Guard = Callable[[], AbstractContextManager[object]]

FRAMES = 400_000  # of Python; the deepest walks take some twenty for each of 10,000 levels
STACK_BYTES = 512 << 20  # only what is used is ever allocated
ALONE = object()  # is sent to a coroutine that lets others have their turn (`turns`) where there are none
POSTPONEMENT = 0.01  # seconds until a limit is lowered that a thread still exceeds

_changing = threading.Lock()


class _ThisThread(threading.local):
    """Tells whether this thread has a deep stack, and what is entered while it raises the recursion limit.

    alone  whether the event loop is blocked until this thread is done
    """

    is_deep = False
    alone = False
    guard: Guard | None = None


_this_thread = _ThisThread()


def call_deeply(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and once more on a deep stack if it recurses too deep for this one. It must bear being called
    twice. Raises what it raises."""
    try:
        return function(*args, **kwargs)
    except RecursionError:
        return on_deep_stack(function, *args, **kwargs)


def on_deep_stack(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function on a large stack and with a high recursion limit: in a new thread unless this one has such a
    stack. Return its result, or raise what it raises.

    The recursion limit of Python concerns all threads; it is raised only for as long as this takes.
    """
    guard = _this_thread.guard
    with (guard or nullcontext)(), _raised_limit.in_use():
        if not _this_thread.is_deep:
            return start_on_deep_stack(partial(_call_alone, function, *args, **kwargs)).result()
        return function(*args, **kwargs) if guard is None else _call_alone(function, *args, **kwargs)


def has_deep_stack() -> bool:
    """Report whether this thread may recurse as deep as it likes while the recursion limit is raised."""
    return _this_thread.is_deep


def is_limit_raised() -> bool:
    """Report whether the recursion limit of all threads is raised."""
    return bool(_raised_limit.ordinary)


def is_alone() -> bool:
    """Report whether the event loop is blocked until this thread is done: it must not wait for the loop then."""
    return _this_thread.alone


def _call_alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and note meanwhile that this thread is alone."""
    before, _this_thread.alone = _this_thread.alone, True
    try:
        return function(*args, **kwargs)
    finally:
        _this_thread.alone = before


def start_on_deep_stack(function: Callable[[], T], guard: Guard | None = None) -> Future[T]:
    """Call a function in a new thread with a deep stack, and return its outcome, a Future; it cannot be cancelled.

    The recursion limit is the ordinary one; when the function raises it, by `on_deep_stack`, it enters the guard.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        _this_thread.guard = guard
        try:
            outcome.set_result(function())
        except BaseException as error:  # handed over to the caller's thread
            outcome.set_exception(error)

    start_deep_thread(run, "understudy-deep")
    return outcome


def start_deep_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread with a deep stack, and return it. The process may end while it runs."""

    def run() -> None:
        _this_thread.is_deep = True
        target()

    with _changing:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=run, name=name, daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that suspends for nothing but turns of others, in any thread; return its result, or raise what
    it raises. It is told that it is ALONE."""
    try:
        awaited = coroutine.send(None)
        while awaited is None:
            awaited = coroutine.send(ALONE)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine suspended where nothing wakes it")


class _RaisedLimit:
    """Raises the recursion limit for as long as somebody needs it.

    users      how many calls need the raised limit
    ordinary   the limit that was in force before, 0 unless it is raised
    postponed  whether a timer is about to lower it
    """

    def __init__(self) -> None:
        self.users = 0
        self.ordinary = 0
        self.postponed = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the limit raised until the last call that needs it has returned."""
        with _changing:
            self.users += 1
            if not self.ordinary:
                self.ordinary = sys.getrecursionlimit()
                sys.setrecursionlimit(max(FRAMES, self.ordinary))
        try:
            yield
        finally:
            with _changing:
                self.users -= 1
            self._lower()

    def _lower(self) -> None:
        """Put the ordinary limit back unless it is needed, a little later if a thread is deeper than it allows.

        CPython aborts the process when a thread handles an exception and is far beyond a limit that has come down.
        """
        with _changing:
            if self.users or not self.ordinary or self.postponed:
                return
            self.postponed = _is_any_thread_deeper(self.ordinary // 4)  # calls of C count as well, without frames
            if not self.postponed:
                sys.setrecursionlimit(self.ordinary)
                self.ordinary = 0
                return
        later = threading.Timer(POSTPONEMENT, self._lower_again)
        later.daemon = True
        later.start()

    def _lower_again(self) -> None:
        """Lower the limit after it was postponed."""
        self.postponed = False
        self._lower()


_raised_limit = _RaisedLimit()


def _is_any_thread_deeper(levels: int) -> bool:
    """Report whether a thread has more frames than so many."""
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        for _ in range(levels):
            frame = frame and frame.f_back
        if frame is not None:
            return True
    return False
