"""The `understudy` command: the API server's commands and those of the programs around it."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from understudy.cli.garbage import lasting_objects, little_garbage_collection

if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Callable, Iterable
    from typing import Any

    from understudy.cli.program import AddCommand, AddParser


class Command(NamedTuple):
    """A command: the module whose function `add_command` adds it with its flags, and its line in the help of all."""

    module: str
    help: str


# The commands, in the order of the help.
COMMANDS = {
    "serve": Command("understudy.cli.commands.serve_command", "serve the API"),
    "validate": Command("understudy.cli.commands.validate_command", "check manifests without a server"),
    "lsp": Command("understudy.cli.commands.lsp_command", "serve an editor: errors, completion, descriptions"),
    "diff-releases": Command(
        "understudy.cli.commands.diff_releases_command", "compare what releases make of manifests"
    ),
    "allocate": Command("understudy.cli.commands.allocate_command", "allocate devices to claims without a cluster"),
    "controllers": Command("understudy.cli.commands.controllers_command", "run controllers beside any API server"),
    "dev": Command("understudy.cli.commands.dev_command", "run a whole control plane for DRA on a laptop"),
    "devices": Command("understudy.cli.commands.devices_command", "say who holds which device"),
    "envtest-assets": Command("understudy.cli.commands.envtest_assets_command", "stand in for envtest's programs"),
    "explain-allocation": Command("understudy.cli.commands.explain_command", "say why claims cannot be allocated"),
    "kubelet": Command("understudy.cli.commands.kubelet_command", "stand in for the kubelet of a node"),
    "drivers": Command("understudy.cli.commands.drivers_command", "test a DRA driver"),
    "worlds": Command("understudy.cli.commands.worlds_command", "list the worlds that can be loaded by name"),
    "record": Command("understudy.cli.commands.record_command", "record a running cluster as a world"),
    "snapshot": Command("understudy.cli.commands.snapshot_command", "copy and compare what servers keep"),
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code. Without a command the help is printed.

    Where the first argument names a command, only that one is imported: all would make each start 3 % slower. The help
    that lists them imports none.
    """
    words = sys.argv[1:] if argv is None else argv
    with little_garbage_collection():
        with lasting_objects():
            from understudy.cli import program

            named = COMMANDS.keys() & words[:1] or COMMANDS
            are_listed = COMMANDS.keys().isdisjoint(words)
            commands = list_commands() if are_listed else import_commands(named)
        return program.main(argv, commands)


def list_commands() -> list[AddCommand]:
    """Return functions that add all commands to a parser, without their flags."""
    return [partial(_add, name, lambda add_parser: add_parser()) for name in COMMANDS]


def import_commands(names: Iterable[str]) -> list[AddCommand]:
    """Import commands; return the functions that add them to a parser."""
    return [partial(_add, name, import_module(COMMANDS[name].module).add_command) for name in names]


def _add(name: str, add_command: Callable[[AddParser], object], commands: _SubParsersAction[Any]) -> None:
    add_command(partial(commands.add_parser, name, help=COMMANDS[name].help))
