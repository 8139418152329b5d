"""Does what a page says, its commands in one shell, as a reader would in a terminal.

The prompt is "$ ". A command that ends in "&" stays in the background, and what it prints later stands below later
commands, as on a terminal. A line "…" stands for any lines, /home/you for the working directory. Ports such as 8001
become free ones; ages, times and random suffixes may be others.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.docs.pages import Block, Role, role_of
from tests.ports import free_port
from tests.waiting import PATIENCE

ANY, HOME = "…", "/home/you"
INSTALLED = 600.0  # seconds until pip has to be done
_DONE, _WENT_WELL = "=== the command has ended ===", "=== it went well ==="
_PORT = re.compile(r"\b80\d\d\b")
_SERVER = re.compile(r"^(understudy (?:serve|dev)\b(?!.*--port).*?)( ?&)?$")
# What differs from run to run, and what it is compared as.
_CHANCE = [
    (re.compile(r"\s+$"), ""),
    (re.compile(r" +\d+(?:m\d*)?s$"), " AGE"),
    (re.compile(r"\bin \d+\.\d+s\b"), "in SECONDS"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"^\d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "SUFFIX"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "PORT"),
    (re.compile(r"  +"), "  "),
]
# What programs in the background tell: a line that begins with a time, and the lines indented below it.
_MEANWHILE = re.compile(r"\d\d:\d\d:\d\d | {13}\S")


def steps(sessions: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """Yield (command, output) of sessions. Raises ValueError for one that does not begin with a command."""
    for session in sessions:
        before, *parts = re.split(r"^\$ ", session.code, flags=re.MULTILINE)
        if before:
            raise ValueError(f"{session}: a session begins with a command")
        for part in parts:
            lines = part.splitlines()
            end = next(i for i, line in enumerate(lines) if not line.endswith("\\")) + 1
            yield "\n".join(lines[:end]), "\n".join(lines[end:])


def ports_of(blocks: Sequence[Block]) -> dict[str, str]:
    """Return a free port for each one that blocks name, and for the default."""
    text = "".join(block.code for block in blocks)
    return {port: str(free_port()) for port in sorted({"8001", *_PORT.findall(text)})}


def run(blocks: Sequence[Block], folder: Path, environment: Mapping[str, str]) -> None:
    """Do in a folder what blocks say, one after the other; fail where a command prints something else.

    Files are written; commands of sessions and installations, scripts and tests run.
    """
    ports = ports_of(blocks)

    def here(text: str) -> str:
        return _PORT.sub(lambda match: ports[match[0]], text).replace(HOME, str(folder.resolve()))

    shell = Shell(folder, environment)
    try:
        for block in blocks:
            if file := file_of(block):
                (folder / file).write_text(here(block.code))
            patience = INSTALLED if role_of(block) is Role.INSTALLATION else PATIENCE
            for command, expected in commands_of(block):
                shell.send(_SERVER.sub(rf"\1 --port {ports['8001']}\2", here(command)))
                printed = shell.wait_for(here(expected), patience)
                assert is_expected(printed, here(expected)), f"$ {command}\n{printed}"
    finally:
        shell.end()


def file_of(block: Block) -> str:
    """Return the name of the file that a reader writes for a block, "" for none."""
    stems = {Role.TEST: "test_line", Role.SCRIPT: "script_line"}
    return block.title or (f"{stem}_{block.line}.py" if (stem := stems.get(role_of(block))) else "")


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Return (command, output) of what a reader types for a block: nothing for a file."""
    role = role_of(block)
    if role is Role.SESSION:
        return [*steps([block])]
    commands = {
        Role.INSTALLATION: block.code.splitlines(),
        Role.TEST: [f"pytest -q {'-o asyncio_mode=auto ' * ('async def test_' in block.code)}{file_of(block)}"],
        Role.SCRIPT: [f"python {file_of(block)}"],
    }
    return [(f"{command} && echo '{_WENT_WELL}'", f"{ANY}\n{_WENT_WELL}") for command in commands.get(role, ())]


def compared(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run, and without empty ones around them."""
    lines = text.splitlines()
    for pattern, replacement in _CHANCE:
        lines = [pattern.sub(replacement, line) for line in lines]
    return "\n".join(lines).strip("\n").splitlines()


def is_expected(printed: str, expected: str) -> bool:
    """Report whether an output is as expected, but for what differs from run to run and the lines of a "…".

    What programs in the background tell meanwhile is left out, unless some of it is expected: then in any order, since
    they tell of things that happen at the same time.
    """
    is_meanwhile = any(_MEANWHILE.match(line) for line in expected.splitlines())
    if not is_meanwhile:
        printed = "\n".join(line for line in printed.splitlines() if not _MEANWHILE.match(line))
    wanted, told = compared(expected), compared(printed)
    if is_meanwhile:
        lines_left = Counter(told)
        lines_left.subtract(line for line in wanted if line != ANY)
        return min(lines_left.values()) >= 0 and (ANY in wanted or max(lines_left.values()) == 0)
    lines = [".*" if line == ANY else f"{re.escape(line)}\n" for line in wanted]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in told), re.DOTALL) is not None


class Shell:
    """A shell whose commands and their background programs print to one place."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._printed = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._has_background = False
        self.send("set -m")  # background programs are jobs, as on a terminal
        self.wait_for("")

    def _read(self) -> None:
        assert self._process.stdout is not None
        while part := os.read(self._process.stdout.fileno(), 65536):
            with self._changed:
                self._printed += part.decode(errors="replace")
                self._changed.notify_all()

    def send(self, command: str) -> None:
        """Begin a command."""
        assert self._process.stdin is not None
        self._has_background = self._has_background or command.endswith("&")
        self._process.stdin.write(f"{command}\necho '{_DONE}'\n")
        self._process.stdin.flush()

    def wait_for(self, expected: str, patience: float = PATIENCE) -> str:
        """Return the output until the command has ended and, with programs in the background, is as expected."""
        end = time.monotonic() + patience
        with self._changed:
            while True:
                printed, done, later = self._printed.partition(f"{_DONE}\n")
                is_complete = is_expected(printed + later, expected)
                is_over = done and (is_complete or not self._has_background)
                if is_over or not self._changed.wait(max(0, end - time.monotonic())):
                    self._printed = ""
                    return printed + later

    def end(self) -> None:
        """End the shell and what it has started."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise
        finally:
            self._reader.join(PATIENCE)
            if self._process.stdout is not None:
                self._process.stdout.close()


def environment(folder: Path, kubectl: str) -> dict[str, str]:
    """Return an environment in which `understudy`, `python`, `pytest` and `kubectl` are those of the tests.

    folder   where links to the programs are made
    kubectl  path of a kubectl, or "" for none
    """
    if kubectl:
        (folder / "kubectl").symlink_to(kubectl)
    own = {name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX", "LANG") if name in os.environ}
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    no_plugins = "-p no:asyncio -p no:aiohttp -p no:cacheprovider"
    return {"PATH": path, "HOME": str(folder), "PYTEST_ADDOPTS": no_plugins, **own}
