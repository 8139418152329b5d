"""Ctrl-T on the terminal of a command that runs on: calls a function.

BSD and macOS send SIGINFO then. Elsewhere the terminal is told, for as long as the command runs, to send SIGQUIT for
Ctrl-T in place of Ctrl-\\; other characters and other jobs of the shell are not concerned. `kill -QUIT` does the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Self

CTRL_T = b"\x14"
CHARACTERS = 6  # the place of the control characters among the attributes of a terminal


class StatusKey:
    """Listens to the key while it is an open context manager. It is opened in the main thread, which gets signals."""

    def __init__(self) -> None:
        self._pressed: Callable[[], None] | None = None
        self._attributes: list[Any] | None = None

    def calls(self, function: Callable[[], None]) -> None:
        """Call a function in the running event loop, from now on, when the key is pressed."""
        loop = asyncio.get_running_loop()

        def pressed() -> None:
            loop.call_soon_threadsafe(function)

        self._pressed = pressed

    def forget(self) -> None:
        """Call nothing any more."""
        self._pressed = None

    def __enter__(self) -> Self:
        for name in ("SIGINFO", "SIGQUIT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._signalled)
        if not hasattr(signal, "SIGINFO") and _is_in_foreground():
            import termios

            self._attributes = termios.tcgetattr(sys.stdin)
            changed = [*self._attributes]
            changed[CHARACTERS] = [*changed[CHARACTERS]]
            changed[CHARACTERS][termios.VQUIT] = CTRL_T
            termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)
        return self

    def __exit__(self, *_: object) -> None:
        if self._attributes is not None and _is_in_foreground():
            import termios

            termios.tcsetattr(sys.stdin, termios.TCSANOW, self._attributes)

    def _signalled(self, *_: object) -> None:
        if self._pressed is not None:
            self._pressed()


def _is_in_foreground() -> bool:
    """Report whether there is a terminal, and this is the job that reads from it; any other would be stopped."""
    try:
        return os.isatty(sys.stdin.fileno()) and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # no terminal, no standard input, or Windows
        return False
