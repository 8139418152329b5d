"""What the project is made and checked with: each package is a command, `python -m scripts.PACKAGE --help`."""

import sys


def _refuse_module(arguments: list[str]) -> None:
    """End `python -m scripts.PACKAGE.COMMAND` with exit status 2, and say what runs the command: the module itself
    would do nothing.

    arguments  those of the interpreter (`sys.orig_argv`)
    """
    module = arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""
    match module.split("."):
        case ["scripts", package, command]:
            command = command.replace("_", "-")
            print(f"{module} is no command; run `python -m scripts.{package} {command}`", file=sys.stderr)
            sys.exit(2)


if sys.argv[0] == "-m":  # Python looks for the module to run
    _refuse_module(sys.orig_argv)
