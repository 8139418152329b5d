"""The program `understudy`: its parser, and how a command runs a server."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from understudy.cli.garbage import lasting_objects
from understudy.cli.output import counted, print_error
from understudy.machinery.util.spelling import did_you_mean

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from concurrent.futures import Future

    from understudy.controlplane.server import Server

    UseServer = Callable[[Server, Future[None]], Coroutine[Any, Any, None]]
    AddParser = Callable[..., argparse.ArgumentParser]
    AddCommand = Callable[["_SubParsersAction[_Parser]"], None]

PORT = 8001  # default port of `understudy serve`
USAGE_ERROR = 2
READER_LEFT = 141  # what shells say of a program that SIGPIPE has ended


# Checks a flag that is added; one that asks how wide the terminal is takes longer than all flags.
_FLAG_CHECKER = partial(argparse.HelpFormatter, width=80)


class _Parser(argparse.ArgumentParser):
    """Refuses a wrong flag in one line, with exit code 2, and says which one was meant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _FLAG_CHECKER, **options})

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        if self.formatter_class is _FLAG_CHECKER:
            self.formatter_class = argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")

    def refuse(self, unknown: list[str]) -> NoReturn:
        """Refuse arguments that the command does not take."""
        meant = did_you_mean(unknown[0].partition("=")[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as why:
            why.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise


class _PrintVersion(argparse.Action):
    """Prints the version of the installed distribution, which takes its time to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print("understudy", version("understudy"))
        parser.exit()


def new_parser(added: Iterable[AddCommand]) -> tuple[_Parser, Mapping[str, _Parser]]:
    """Return the parser of commands, and those of each command. docs/reference/command-line.md is made from it."""
    parser = _Parser(prog="understudy", description="A stand-in for the Kubernetes API server.")
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version of understudy and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add_command in added:
        add_command(commands)
    return parser, commands.choices


def main(argv: list[str] | None, added: Iterable[AddCommand]) -> int:
    """Run one of some commands; return its exit code. Without a command the help is printed."""
    parser, commands = new_parser(added)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        commands.get(args.command, parser).refuse(unknown)
    if not args.command:
        parser.print_help()
        return 0
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        code = run(args)
    except OSError as why:
        code = _code_after(why, 0)
    try:
        if not sys.stdout.closed:  # the language server closes it
            sys.stdout.flush()
    except OSError as why:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still has to write there
        code = _code_after(why, code)
    return code


def _code_after(why: OSError, code: int) -> int:
    """Tell in one line why what a command prints cannot be written, unless it has told of it; return the exit code."""
    if isinstance(why, BrokenPipeError):  # nobody reads it any more, as behind `| head`
        return READER_LEFT
    if code != USAGE_ERROR:
        print_error(why)
    return USAGE_ERROR


def run_server(options: Callable[[], dict[str, Any]], use: UseServer) -> int:
    """Run a server while it is used; return the exit code, 2 with one line for options that make no sense.

    options  returns the options of the server; raises ValueError
    use      is run with the server once it listens, and a future that SIGINT and SIGTERM complete; the server ends
             when it returns, after it has answered the requests that run

    Before it listens, when it may be reading what it begins with, such a signal ends the process immediately, as a
    second one does (upstream: `SetupSignalHandler`).
    """
    from understudy.apiserver.client.manifests import LoadError

    try:
        with lasting_objects():
            from understudy.cli.process import run_until_signal  # asyncio, as the server
            from understudy.controlplane.server import Server

            server = Server(**options())

        async def use_listening(stopped: Future[None], listens: Callable[[], None]) -> None:
            with lasting_objects():
                await server.start(lambda documents: counted(documents, "objects loaded"))
            try:
                listens()
                await use(server, stopped)
                await server.drain()
            finally:
                await server.stop()

        run_until_signal(use_listening)
    except (ValueError, LoadError, OSError) as why:
        print_error(why)
        return USAGE_ERROR
    return 0
