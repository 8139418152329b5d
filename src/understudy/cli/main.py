"""The `understudy` command: the API server's commands and those of the programs around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.cli import program
from understudy.cli.commands import (
    allocate_command,
    controllers_command,
    dev_command,
    devices_command,
    diff_releases_command,
    explain_command,
    kubelet_command,
    validate_command,
)

if TYPE_CHECKING:
    from understudy.cli.program import AddCommand

# Each adds one command with its flags; none imports what only running the command needs.
COMMANDS: Sequence[AddCommand] = (
    validate_command.add_command,
    diff_releases_command.add_command,
    allocate_command.add_command,
    controllers_command.add_command,
    dev_command.add_command,
    devices_command.add_command,
    explain_command.add_command,
    kubelet_command.add_command,
)


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code. Without a command the help is printed."""
    return program.main(argv, COMMANDS)
