"""The commands of `scripts`: each package lists its own, and refuses others in one line."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from scripts.common.commands import main
from tests.scripts.commands import ROOT, run

PACKAGES = ("record", "compare", "torture", "measure")


def commands(package: str) -> tuple[str, ...]:
    listed: tuple[str, ...] = import_module(f"scripts.{package}.__main__").COMMANDS
    return listed


@pytest.mark.parametrize("package", PACKAGES)
def test_every_command_is_listed(package: str) -> None:
    """A module that adds arguments is a command of its package, and no other is."""
    modules = [path for path in (ROOT / "scripts" / package).glob("*.py") if "\ndef add_arguments(" in path.read_text()]
    assert sorted(path.stem.replace("_", "-") for path in modules) == sorted(commands(package))


@pytest.mark.parametrize(("package", "command"), [(name, each) for name in PACKAGES for each in commands(name)])
def test_every_command_has_help(package: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help of a command tells its arguments, and how it is called."""
    with pytest.raises(SystemExit) as end:
        main(f"scripts.{package}", [command], [command, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m scripts.{package} {command} ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["alocator"], "invalid choice: 'alocator'"),
        (["mutate", "kinds/nothing"], "python -m scripts.measure mutate: error: there is no folder "),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command, no command, and arguments that a command refuses end with exit status 2."""
    with pytest.raises(SystemExit) as end:
        main("scripts.measure", commands("measure"), arguments)
    assert end.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]


def test_packages_are_commands() -> None:
    """`python -m scripts.PACKAGE` runs a command of its package."""
    assert run("record", "names", "--help").stdout.startswith("usage: python -m scripts.record names ")


def test_module_of_a_command_says_what_to_run() -> None:
    """`python -m scripts.PACKAGE.COMMAND`, which would do nothing, ends with the right command and exit status 2."""
    done = run("measure.micro")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "scripts.measure.micro is no command; run `python -m scripts.measure micro`\n"


def test_benchmark_runs_from_any_folder(tmp_path: Path) -> None:
    """scripts/bench.py is the command that measures the server."""
    command = [str(ROOT / "scripts" / "bench.py"), "--help"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout.startswith("usage: python -m scripts.measure server ")
