"""The process of a server: signals, open files, threads and memory, as suit a server."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctypes import CDLL

# Seconds that a thread computes until another one may. Beside ten expressions without an end the event loop waits for
# its turn several times in each request: with Python's default of 5 ms /healthz took 0.6 s, and takes 0.2 now.
SWITCH_INTERVAL = 0.001
GIVING_BACK = 10.0  # seconds until freed memory is given back
MUCH_FREED = 0.75  # part of the objects that are left when much was freed
MOST_UNUSED = 256  # objects of one type that are kept for later
# glibc's `M_MMAP_THRESHOLD` (mallopt(3)), and its initial value in bytes. Once it is set it stays, so that every larger
# block goes back to the system when it is freed. Otherwise glibc keeps larger and larger ones, from the first that is
# freed: clients that sent a hundred large bodies would leave 150 MiB behind.
MMAP_THRESHOLD = (-3, 128 * 1024)


def run_until_signal(use: Callable[[Future[None], Callable[[], None]], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in the process of a server until it ends.

    use  gets a future that SIGINT and SIGTERM complete, and a function to call once it waits for that. Before, when it
         may be reading what a server begins with, such a signal ends the process immediately, as a second one does
         (upstream: `SetupSignalHandler`)
    """
    from understudy.apiserver.server.worker.loop_thread import new_loop
    from understudy.machinery.util.deep_recursion import start_on_deep_stack

    _raise_descriptor_limit()
    allocator = _allocator()
    if allocator is not None:
        allocator.mallopt(*MMAP_THRESHOLD)
    stopped: Future[None] = Future()
    waits = threading.Event()

    def stop(number: int, _: object) -> None:
        if stopped.done() or not waits.is_set():
            os._exit(128 + number)
        stopped.set_result(None)

    async def use_meanwhile() -> None:
        giving_back = asyncio.create_task(_give_back_memory_periodically(allocator))
        try:
            await use(stopped, waits.set)
        finally:
            giving_back.cancel()

    def run_loop() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(use_meanwhile())

    with _threads_switch_often(), _signals_call(stop) as wait:
        wait(start_on_deep_stack(run_loop))


@contextmanager
def _signals_call(stop: Callable[[int, object], None]) -> Iterator[Callable[[Future[None]], None]]:
    """Let SIGINT and SIGTERM call a function meanwhile. Yield a function that waits for a Future, which may raise.

    Python runs the handler of a signal in the main thread alone. Where the system gives the signal to another thread,
    only a byte that arrives at a socket wakes the main thread up (`signal.set_wakeup_fd`): a lock does not.
    """
    waking, wakes = socket.socketpair()

    def wait(outcome: Future[None]) -> None:
        outcome.add_done_callback(lambda _: wakes.send(b"\0"))
        while waking.recv(1) != b"\0":  # the number of a signal
            pass
        outcome.result()

    with waking, wakes:
        wakes.setblocking(False)
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        woken_before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            yield wait
        finally:
            signal.set_wakeup_fd(woken_before)
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def _threads_switch_often() -> Iterator[None]:
    """Let a thread that computes give way to the event loop meanwhile as soon as suits a server."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _allocator() -> CDLL | None:
    """Return the library with the functions of glibc's allocator, None where there is another one."""
    from ctypes import CDLL  # only servers need it

    with suppress(AttributeError, OSError, TypeError):
        allocator = CDLL(None)
        if allocator.mallopt and allocator.malloc_trim:
            return allocator
    return None


async def _give_back_memory_periodically(allocator: CDLL | None) -> None:
    """Give memory between what is in use back to the system now and then, where the allocator keeps it (glibc).

    Without this a third of what is freed stays: after 20,000 objects are deleted, 14 of 40 MiB. A thread does it, in
    some milliseconds, and in none if little was freed. After a quarter of all objects of Python was freed, and once
    more later, since that may go on, the small things go as well between which nothing can be given back: caches (see
    `forget_results`), what is held longer than needed (see `give_back`), and the unused objects that Python and the
    event loop keep.
    """
    from understudy.machinery.util.caches import forget_results
    from understudy.machinery.util.memory import give_back

    most, freed_before = 0, False
    while True:
        most = max(most, blocks := sys.getallocatedblocks())
        freed = blocks < most * MUCH_FREED
        if freed or freed_before:
            forget_results()
            give_back()
            await _renew_unused_objects()
            most = blocks
        freed_before = freed
        if allocator is not None:
            await asyncio.to_thread(allocator.malloc_trim, 0)
        await asyncio.sleep(GIVING_BACK)


async def _renew_unused_objects() -> None:
    """Exchange the unused objects that are kept for later: they may be the last ones in pieces of 1 MiB of memory.

    Python keeps some of every type of its own (`gc.collect` frees them, in 3 milliseconds, since most of what is stored
    is frozen) and up to 255 iterators of futures; uvloop keeps up to 250 handles of calls and as many of timers. These
    are taken into use here, with as many new ones, and the new ones are freed first, so that those are kept.
    """
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def take() -> list[object]:
        timers = [loop.call_later(GIVING_BACK, _nothing) for _ in range(MOST_UNUSED)]
        for timer in timers:
            timer.cancel()
        calls = [loop.call_soon(_nothing) for _ in range(MOST_UNUSED)]
        return [*timers, *calls, *(future.__await__() for _ in range(MOST_UNUSED))]

    kept, new = take(), take()
    for _ in range(2):  # until the calls are made, and the loop has let go of them
        await asyncio.sleep(0)
    new.clear()
    kept.clear()
    gc.collect()


def _nothing() -> None:
    """Do nothing."""


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one, as Go's runtime does.

    Each watcher needs a descriptor, and libuv resets connections for which there is none.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS takes no limit above its own, whatever the hard one is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
