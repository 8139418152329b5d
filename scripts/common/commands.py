"""The one command of a package of scripts: `python -m scripts.PACKAGE COMMAND`, where each command is a module of it.

A module that is a command has two functions: `add_arguments` and `run`, which returns the exit code. Its docstring is
what `--help` prints, and the first sentence of that stands in the package's list of commands.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


class UsageError(Exception):
    """Arguments do not fit together."""


def main(package: str, commands: Sequence[str], argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, by default those of the process, and return its exit code.

    Raises SystemExit(2), with one line on stderr, for wrong arguments. Only the module of the command is imported:
    others may need a library, or a long time.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=import_module(package).__doc__)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in commands:
        name = f"{package}.{command.replace('-', '_')}"
        doc = docstring(name)
        chosen = subparsers.add_parser(
            command,
            help=" ".join(doc.partition("\n\n")[0].split()).replace("%", "%%"),
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if arguments[:1] == [command]:
            module, used = import_module(name), chosen
            module.add_arguments(chosen)
    options = parser.parse_args(arguments)
    try:
        return int(module.run(options))
    except UsageError as why:
        used.error(str(why))


def docstring(module: str) -> str:
    """Return the docstring of a module without importing it."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text())) or ""
