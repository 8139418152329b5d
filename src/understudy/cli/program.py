"""The program `understudy`: its parser, and the command `understudy serve`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from time import thread_time
from typing import TYPE_CHECKING, Any, NoReturn

from understudy.cli.flags import add_server_flags, server_options
from understudy.cli.output import print_error

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from ctypes import CDLL

    from understudy.controlplane.server import Server

    UseServer = Callable[[Server, Future[None]], Coroutine[Any, Any, None]]
    AddCommand = Callable[["_SubParsersAction[_Parser]"], None]

PORT = 8001  # default port of `understudy serve`
USAGE_ERROR = 2
# Objects that are made and not freed yet, before Python looks for cycles among them: its default is 700. A server keeps
# nearly all of what outlives a request, and makes cycles only of connections (some 20 objects each), not of requests.
# So there is little to find; the search took 31 µs of each CREATE, and takes 10 now.
# The two older generations are looked at after 5 and 10 times as many; see `_KeepGarbagePausesShort`.
GARBAGE_THRESHOLDS = (10_000, 5, 2)
LONG_GARBAGE_PAUSE = 0.015  # seconds
# Seconds that a thread computes until another one may. Beside ten expressions without an end the event loop waits for
# its turn several times in each request: with Python's default of 5 ms /healthz took 0.6 s, and takes 0.2 now.
SWITCH_INTERVAL = 0.001
GIVING_BACK = 10.0  # seconds until freed memory is given back
MUCH_FREED = 0.75  # part of the objects that are left when much was freed
MOST_UNUSED = 256  # objects of one type that are kept for later
MMAP_THRESHOLD = (-3, 128 * 1024)  # glibc's `M_MMAP_THRESHOLD` (mallopt(3)), and its initial value in bytes


class _Parser(argparse.ArgumentParser):
    """Refuses a wrong flag in one line, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


class _PrintVersion(argparse.Action):
    """Prints the version of the installed distribution, which takes its time to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print("understudy", version("understudy"))
        parser.exit()


def new_parser(more: Iterable[AddCommand]) -> argparse.ArgumentParser:
    """Return the parser of `serve` and the commands of `more`. docs/reference/command-line.md is made from it."""
    parser = _Parser(prog="understudy", description="A stand-in for the Kubernetes API server.")
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version of understudy and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve the API", description="Serves the Kubernetes API until stopped.")
    add_server_flags(serve)
    serve.add_argument("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    serve.add_argument("-v", "--verbose", action="store_true", help="one line on stderr per request")
    serve.set_defaults(run=_serve, port=PORT)
    for add_command in more:
        add_command(commands)
    return parser


def main(argv: list[str] | None = None, more: Iterable[AddCommand] = ()) -> int:
    """Run `serve` or a command of `more`; return its exit code. Without a command the help is printed."""
    parser = new_parser(more)
    args = parser.parse_args(argv)
    if not args.command:
        parser.print_help()
        return 0
    run: Callable[[argparse.Namespace], int] = args.run
    return run(args)


def _serve(args: argparse.Namespace) -> int:
    logging.basicConfig(format="%(message)s", level=logging.DEBUG if args.verbose else logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)

    async def announce(server: Server, stopped: Future[None]) -> None:
        if args.kubeconfig:
            server.write_kubeconfig(args.kubeconfig)
        print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
        await asyncio.wrap_future(stopped)

    return run_server(lambda: server_options(args), announce)


def run_server(options: Callable[[], dict[str, Any]], use: UseServer) -> int:
    """Run a server while it is used; return the exit code, 2 with one line for options that make no sense.

    options  returns the options of the server; raises ValueError
    use      is run with the server once it listens, and a future that SIGINT and SIGTERM complete; the server ends
             when it returns

    Before it listens, when it may be reading what it begins with, such a signal ends the process immediately, as a
    second one does (upstream: `SetupSignalHandler`).
    """
    from understudy.apiserver.client.manifests import LoadError
    from understudy.apiserver.server.worker.loop_thread import new_loop
    from understudy.controlplane.server import Server
    from understudy.machinery.util.deep_recursion import start_on_deep_stack

    _raise_descriptor_limit()
    _give_back_large_memory()
    try:
        server = Server(**options())
        stopped: Future[None] = Future()
        listens = threading.Event()

        def stop(number: int, _: object) -> None:
            if stopped.done() or not listens.is_set():
                os._exit(128 + number)
            stopped.set_result(None)

        async def use_listening(server: Server, stopped: Future[None]) -> None:
            listens.set()
            await use(server, stopped)

        def run_loop() -> None:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(_use_server(server, use_listening, stopped))

        with _little_garbage_collection(), _threads_switch_often(), _signals_call(stop) as wait:
            wait(start_on_deep_stack(run_loop))
    except (ValueError, LoadError, OSError) as why:
        print_error(why)
        return USAGE_ERROR
    return 0


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
def _little_garbage_collection() -> Iterator[None]:
    """Let Python look for cycles meanwhile as seldom as suits a server."""
    thresholds, keep_short = gc.get_threshold(), _KeepGarbagePausesShort()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.callbacks.append(keep_short)
    try:
        yield
    finally:
        gc.freeze()  # at the end of the process, freeing a hundred thousand objects one by one would take seconds
        gc.callbacks.remove(keep_short)
        gc.set_threshold(*thresholds)


@contextmanager
def _threads_switch_often() -> Iterator[None]:
    """Let a thread that computes give way to the event loop meanwhile as soon as suits a server."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _KeepGarbagePausesShort:
    """Lets Python's search for cycles pass over what is stored, once there is so much that the search takes long.

    Everything is blocked during a search: for a second, if a million objects are stored. What a search has looked at
    that took long is not looked at again (`gc.freeze`). It is freed as soon as nothing refers to it, but for the cycles
    in it: those of the connections of that moment.
    """

    def __init__(self) -> None:
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Note the beginning of a search, or judge how long it took."""
        if phase == "start":
            self._began = thread_time()
        elif thread_time() - self._began > LONG_GARBAGE_PAUSE:
            gc.freeze()


def _give_back_large_memory() -> None:
    """Let the allocator give every large block back to the system when it is freed, where that can be set (glibc).

    Otherwise it keeps larger and larger ones: clients that sent a hundred large bodies would leave 150 MiB behind.
    """
    if (allocator := _allocator()) is not None:
        allocator.mallopt(*MMAP_THRESHOLD)


def _allocator() -> CDLL | None:
    """Return the library with the functions of glibc's allocator, None where there is another one."""
    from ctypes import CDLL  # only servers need it

    with suppress(AttributeError, OSError, TypeError):
        allocator = CDLL(None)
        if allocator.mallopt and allocator.malloc_trim:
            return allocator
    return None


async def _give_back_memory_periodically() -> None:
    """Give memory between what is in use back to the system now and then, where the allocator keeps it (glibc).

    Without this a third of what is freed stays: after 20,000 objects are deleted, 14 of 40 MiB. A thread does it, in
    some milliseconds, and in none if little was freed. After a quarter of all objects of Python was freed, and once
    more later, since that may go on, the small things go as well between which nothing can be given back: caches (see
    `forget_results`), and the unused objects that Python and the event loop keep.
    """
    from understudy.machinery.util.caches import forget_results

    allocator, most, freed_before = _allocator(), 0, False
    while True:
        most = max(most, blocks := sys.getallocatedblocks())
        freed = blocks < most * MUCH_FREED
        if freed or freed_before:
            forget_results()
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


async def _use_server(server: Server, use: UseServer, stopped: Future[None]) -> None:
    await server.start()
    giving_back = asyncio.create_task(_give_back_memory_periodically())
    try:
        await use(server, stopped)
    finally:
        giving_back.cancel()
        await server.stop()
