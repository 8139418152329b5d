"""A driver as a process that a command starts, and what a test of drivers needs of any driver."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from understudy.controlplane.drivers.places import Places
from understudy.controlplane.drivers.verdicts import FailedError

TERMINATION_PERIOD = 30.0  # seconds that a pod has to end, unless it says otherwise
LOG_LINES = 15


class RunningDriver(Protocol):
    """A driver that has been started."""

    def problem(self) -> str:
        """Describe the end of a driver that ended by itself, "" while it runs."""

    async def stop(self) -> None:
        """Ask the driver to end, and wait until it has. Raises FailedError if it does not."""

    async def kill(self) -> None:
        """End the driver without a word."""


StartDriver = Callable[[Places], Awaitable[RunningDriver]]


class DriverProcess:
    """A driver that a command has started. Its output is in a file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    def problem(self) -> str:
        """Describe the end of a process that ended by itself, with its last lines; "" while it runs."""
        code = self._process.returncode
        if code is None:
            return ""
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"the driver ended {how}{self._last_lines()}"

    async def stop(self) -> None:
        """Send SIGTERM and wait as long as a pod has. Raises FailedError if the process goes on."""
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(TERMINATION_PERIOD):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            text = f"the driver still ran {TERMINATION_PERIOD:g} s after SIGTERM{self._last_lines()}"
            raise FailedError(text) from None

    async def kill(self) -> None:
        """Send SIGKILL to the process and those that it has started."""
        self._send(signal.SIGKILL)
        await self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to the group of the process, of which a shell may be the first."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "".join(f"\n    {line}" for line in lines)


def starts(words: Sequence[str]) -> StartDriver:
    """Return a function that starts the driver of a command, whose placeholders it fills in."""

    async def start(places: Places) -> DriverProcess:
        path = places.root / "driver.log"
        with path.open("a") as log:
            process = await asyncio.create_subprocess_exec(
                *places.filled_in(words),
                env={**os.environ, **places.environment()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return DriverProcess(process, path)

    return start
