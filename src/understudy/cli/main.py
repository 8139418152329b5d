"""The `understudy` command: the API server's commands and those of the programs around it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from understudy.cli.garbage import little_garbage_collection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from understudy.cli.program import AddCommand

# The modules of the commands, in the order of the help. Each has a function `add_command`, which adds the command with
# its flags.
COMMANDS = {
    "serve": "understudy.cli.commands.serve_command",
    "validate": "understudy.cli.commands.validate_command",
    "lsp": "understudy.cli.commands.lsp_command",
    "diff-releases": "understudy.cli.commands.diff_releases_command",
    "allocate": "understudy.cli.commands.allocate_command",
    "controllers": "understudy.cli.commands.controllers_command",
    "dev": "understudy.cli.commands.dev_command",
    "devices": "understudy.cli.commands.devices_command",
    "envtest-assets": "understudy.cli.commands.envtest_assets_command",
    "explain-allocation": "understudy.cli.commands.explain_command",
    "kubelet": "understudy.cli.commands.kubelet_command",
    "drivers": "understudy.cli.commands.drivers_command",
    "worlds": "understudy.cli.commands.worlds_command",
    "record": "understudy.cli.commands.record_command",
    "snapshot": "understudy.cli.commands.snapshot_command",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code. Without a command the help is printed.

    Where the first argument names a command, only that one is imported: all would make each start 3 % slower.
    """
    first = (sys.argv[1:] if argv is None else argv)[:1]
    with little_garbage_collection():
        from understudy.cli import program

        return program.main(argv, import_commands(COMMANDS.keys() & first or COMMANDS))


def import_commands(names: Iterable[str]) -> list[AddCommand]:
    """Import commands; return the functions that add them to a parser."""
    return [import_module(COMMANDS[name]).add_command for name in names]
