"""A server in a process of its own, started for a check, with the resources that it uses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

START_SECONDS = 180.0  # that a server may take to say where it listens
STOP_SECONDS = 30.0  # that it may take to end
UNDERSTUDY = (sys.executable, "-c", "import sys; from understudy.cli.main import main; sys.exit(main())")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_URL = re.compile(r"https?://\S+")


class ProcessTree:
    """A process and all below it, with the resources that they use, from /proc."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def _processes(self) -> list[Path]:
        """Return the folders in /proc of the process and of all below it."""
        found, waiting = [], [self.pid]
        while waiting:
            found.append(folder := Path(f"/proc/{waiting.pop()}"))
            for task in (folder / "task").glob("*"):
                waiting += map(int, _read(task / "children").split())
        return found

    def cpu_seconds(self) -> float:
        """Return the seconds of CPU that all of them have used."""
        texts = [text for folder in self._processes() if (text := _read(folder / "stat"))]
        fields = [text.rpartition(")")[2].split() for text in texts]
        return sum(int(each[11]) + int(each[12]) for each in fields) / TICKS

    def memory_mib(self) -> float:
        """Return the resident memory of all of them in MiB."""
        texts = [text for folder in self._processes() if (text := _read(folder / "statm"))]
        return sum(int(text.split()[1]) for text in texts) * PAGE_BYTES / 2**20


class ServerProcess(ProcessTree):
    """An `understudy serve`, or another server, on a free port.

    It reads its resources, those of the processes below it included, from /proc, so it needs Linux. Raises
    RuntimeError, with what the server has printed, if it does not start.
    """

    def __init__(self, *flags: str, before: str = "", program: Sequence[str] = UNDERSTUDY) -> None:
        """Start the server with more flags.

        before   shell commands that run first, in the same process
        program  what takes `serve` and the flags of `understudy serve`, and prints its address as that does
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._start = 0  # bytes on stderr that belong to the start: a server without tokens says that it is open
        command = [*program, "serve", "--port", "0", *flags]
        if before:
            command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log)
        super().__init__(self.process.pid)
        self.url = self._address()
        self._start = self._log.seek(0, os.SEEK_END)
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def _address(self) -> str:
        """Wait for the line that names the address, and return it."""
        assert self.process.stdout is not None
        timer = time.monotonic() + START_SECONDS
        os.set_blocking(self.process.stdout.fileno(), False)
        text = b""
        while time.monotonic() < timer and self.process.poll() is None:
            text += self.process.stdout.read() or b""
            if (match := _URL.search(text.decode())) and text.endswith(b"\n"):
                return match.group()
            time.sleep(0.02)
        self.process.kill()
        self.process.wait()
        raise RuntimeError(f"the server did not start: {text.decode()}{self.stderr()}")

    def __enter__(self) -> Self:
        """Let SIGTERM end this program by SystemExit, so that it ends the server as well."""
        self._before = signal.signal(signal.SIGTERM, _exit)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        signal.signal(signal.SIGTERM, self._before)

    def stop(self) -> int:
        """End the server with SIGTERM, or SIGKILL if it does not listen to that; return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stderr(self) -> str:
        """Return the stderr of the server since it started, or all of it if it has not started.

        Its hints for people at a terminal are left out.
        """
        self._log.seek(self._start)
        lines = self._log.read().decode(errors="replace").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("hint: "))

    def descriptors(self) -> int:
        """Return the number of open files and sockets of the started process."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def _read(path: Path) -> str:
    """Return the text of a file in /proc, "" if the thread or process has just ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _exit(number: int, _: object) -> None:
    """Exit with the status of a program that a signal ended."""
    sys.exit(128 + number)
