"""The program `understudy` as a whole: how it is called, and what the help of each command says."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest

from understudy.apiserver.authorization.modes import MODES
from understudy.apiserver.serving.release import release_names
from understudy.cli import main as cli
from understudy.cli.garbage import GARBAGE_THRESHOLDS
from understudy.controlplane.components import component_names
from understudy.controlplane.controllers import KNOWN

if TYPE_CHECKING:
    from understudy.cli.program import AddCommand

COMMANDS = tuple(cli.COMMANDS)


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help of a command, without line breaks and indents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "10000")  # else a name may be broken at its hyphen
        with pytest.raises(SystemExit) as ended:
            cli.main([command, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_module_is_the_program() -> None:
    """`python -m understudy` is the command `understudy`, exit code included."""
    for argv, code in (["--help"], 0), (["serve", "--port", "x"], 2):
        done = subprocess.run([sys.executable, "-m", "understudy", *argv], capture_output=True, text=True)
        assert done.returncode == code
        assert (done.stdout or done.stderr).startswith(("usage: understudy ", "understudy serve: "))


def test_every_command_is_tested_here(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of the program lists these commands."""
    cli.main([])
    assert re.findall(r"^    (\S+)", capsys.readouterr().out, re.MULTILINE) == list(COMMANDS)


def test_help_of_the_program_imports_no_command() -> None:
    """The list of all commands waits neither for their modules nor for an event loop."""
    code = """
import sys
from understudy.cli import main
main.main([])
print(*{*(command.module for command in main.COMMANDS.values()), "asyncio"} & sys.modules.keys(), file=sys.stderr)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stderr == "\n"


def test_wrong_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that there is not is refused in one line that names the others."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["sevre", "--port", "0"])
    assert ended.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("understudy: argument COMMAND: invalid choice: 'sevre'")
    assert [command for command in COMMANDS if command not in line] == []
    assert line.endswith("; did you mean 'serve'?\n")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("serve --prot 8001", "understudy serve: unrecognized arguments: --prot 8001; did you mean '--port'?"),
        ("serve --emulated-verson=1.34", "… --emulated-verson=1.34; did you mean '--emulated-version'?"),
        ("validate -o sariff x.yaml", "… (choose from …); did you mean 'sarif'?"),
        ("drivers tset", "… (choose from …); did you mean 'test'?"),
        ("worlds --quiet", "understudy worlds: unrecognized arguments: --quiet"),
        ("--verzion", "understudy: unrecognized arguments: --verzion; did you mean '--version'?"),
    ],
)
def test_misspelt_words_are_told(argv: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag or a word that there is not is refused in one line, with the one that was meant."""
    with pytest.raises(SystemExit) as ended:
        cli.main(argv.split())
    assert ended.value.code == 2
    assert fnmatchcase(capsys.readouterr().err, message.replace("…", "*") + "\n")


@pytest.mark.parametrize("argv", [["worlds"], ["worlds", "nodes?count=500"]])
def test_reader_that_leaves_ends_a_command(argv: list[str]) -> None:
    """A command whose output nobody reads any more, as behind `| head`, ends without a word."""
    code = "import sys; from understudy.cli.main import main; sys.exit(main())"
    running = subprocess.Popen([sys.executable, "-c", code, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    assert running.communicate()[1] == b""
    assert running.returncode == 141


@pytest.mark.parametrize("command", ["serve", "kubelet"])
def test_only_the_named_command_is_imported(command: str) -> None:
    """A start does not wait for the modules of other commands."""
    code = """
import sys
from understudy.cli import main
try:
    main.main([sys.argv[1], "--help"])
except SystemExit:
    print(*{command.module for command in main.COMMANDS.values()} & sys.modules.keys(), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, check=True, text=True)
    assert (
        done.stderr.split() == [cli.COMMANDS[command].module] or command == "diff-releases"
    )  # which reads as `validate` does


def test_little_garbage_is_searched_for_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is not searched for while a command is imported, as for a server while it runs, and then as before."""
    seen = []

    def list_commands() -> list[AddCommand]:
        seen.append((gc.get_threshold(), gc.isenabled()))
        return []

    monkeypatch.setattr(cli, "list_commands", list_commands)
    before = gc.get_threshold(), list(gc.callbacks)
    assert cli.main([]) == 0
    assert seen == [(GARBAGE_THRESHOLDS, False)]
    assert (gc.get_threshold(), gc.callbacks) == before
    assert gc.isenabled()


def test_help_of_dev_names_its_controllers(capsys: pytest.CaptureFixture[str]) -> None:
    """The controllers that `dev` runs by itself are said to be the default."""
    assert "(default: namespace, garbage-collector, serviceaccount," in help_of("dev", capsys)
    assert "scheduler, device-taint-eviction (default: none)" in help_of("serve", capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_for_people(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No default is a value of Python, and a flag that may stand alone says what it takes otherwise: BOOL."""
    shown = help_of(command, capsys)
    assert "None" not in shown
    assert set(re.findall(r"--\S+ \[([A-Z]+)\]", shown)) <= {"BOOL"}


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_help_of_a_server_has_every_name(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help names all controllers and authorization modes that there are."""
    shown = help_of(command, capsys)
    for flag, names in (("controllers", [*KNOWN, *component_names()]), ("authorization-mode", MODES)):
        text = re.findall(rf"--{flag} A,B (.*?) --", shown)[-1]
        assert [name for name in names if name not in re.split("[ ,]+", text)] == []


def test_help_of_controllers_has_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of `understudy controllers` names those that run beside any server, and where the release is from."""
    shown = help_of("controllers", capsys)
    text = re.findall(r"--controllers A,B (.*?) -v", shown)[-1]
    assert [name for name in component_names() if name not in re.split("[ ,:]+", text)] == []
    assert f"{release_names()} (default: the server's)" in shown
