"""Credentials that a command prints: it is run when they are needed, and again when they are over or refused.

Upstream: k8s.io/client-go/plugin/pkg/client/auth/exec (`Authenticator`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress

from understudy.machinery.auth.exec_credential import KIND, Credentials, CredentialsError, read_credentials
from understudy.machinery.auth.exec_plugin import ALWAYS, GROUP, IF_AVAILABLE, MODES, ExecPlugin
from understudy.machinery.golang.json_writer import encode, with_source
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

EXEC_INFO = "KUBERNETES_EXEC_INFO"  # the variable that tells a command what is wanted
_HINTS, _HINT_SECONDS = 10, 3600.0  # how often, and in which time, an error says how to install a command
_HELP = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""


class ExecCredentials:
    """The credentials of one command, which runs once at a time, on the event loop of those who need them."""

    def __init__(self, plugin: ExecPlugin, version: Version) -> None:
        self._plugin = plugin
        self._version = version
        self._kept: Credentials | None = None
        self._running: asyncio.Task[Credentials] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._hints: list[float] = []

    async def get(self) -> Credentials:
        """Return the credentials; the command runs unless it has and they are not over. Raises CredentialsError."""
        kept = self._kept
        if kept is not None and (kept.expires is None or time.time() <= kept.expires):
            return kept
        return await self._refreshed()

    async def refresh(self, refused: Credentials) -> None:
        """Run the command again for credentials that were refused, unless it has run since. What fails is ignored:
        they are tried again."""
        if self._kept is refused:
            with suppress(CredentialsError):
                await self._refreshed()

    def close(self) -> None:
        """End the command if it runs."""
        if self._process is not None:
            self._process.kill()

    async def _refreshed(self) -> Credentials:
        """Run the command, once for all who wait, or wait until it has run. It goes on if nobody waits any more."""
        if self._running is None:
            self._running = asyncio.create_task(asyncio.to_thread(self._run))
            self._running.add_done_callback(self._done)
        return await asyncio.shield(self._running)

    def _done(self, task: asyncio.Task[Credentials]) -> None:
        self._running = None
        if not task.cancelled() and task.exception() is None:
            self._kept = task.result()

    def _run(self) -> Credentials:
        """Run the command, and return what it prints. Raises CredentialsError."""
        plugin, is_interactive = self._plugin, self._is_interactive()
        spec: Obj = {"cluster": with_source({}, plugin.cluster)} if plugin.cluster else {}
        spec["interactive"] = is_interactive
        info = encode({"kind": KIND, "apiVersion": f"{GROUP}/{plugin.version}", "spec": spec}).decode() + "\n"
        path = plugin.command if os.sep in plugin.command else shutil.which(plugin.command)
        if path is None:
            raise CredentialsError(f"exec: executable {plugin.command} not found{self._hint()}")
        stdin = None if is_interactive else subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                [plugin.command, *plugin.arguments],
                executable=path,
                env={**os.environ, **dict(plugin.environment), EXEC_INFO: info},
                stdin=stdin,
                stdout=subprocess.PIPE,
            )
        except OSError as why:
            raise CredentialsError(f"exec: fork/exec {path}: {os.strerror(why.errno or 0).lower()}") from None
        with self._process as process:
            printed, _ = process.communicate()
        if process.returncode:
            code = max(process.returncode, -1)  # -1 for every signal
            raise CredentialsError(f"exec: executable {plugin.command} failed with exit code {code}")
        return read_credentials(printed, plugin.version, self._version)

    def _is_interactive(self) -> bool:
        """Report whether the command may read what is typed. Raises CredentialsError."""
        mode, is_terminal = self._plugin.mode, sys.stdin is not None and sys.stdin.isatty()
        if mode not in MODES:
            problem = f"unknown interactiveMode: {go_quote(mode)}"
        elif mode == ALWAYS and not is_terminal:
            problem = "standard input is not a terminal"
        else:
            return mode == ALWAYS or (mode == IF_AVAILABLE and is_terminal)
        raise CredentialsError(f"exec plugin cannot support interactive mode: {problem}")

    def _hint(self) -> str:
        """Return the text that says how to install the command, "" if it was said often."""
        now = time.monotonic()
        if self._hints and now - self._hints[0] >= _HINT_SECONDS:
            self._hints.clear()
        if len(self._hints) >= _HINTS:
            return ""
        self._hints.append(now)
        return f"{_HELP}\n\n{self._plugin.hint}" if self._plugin.hint else _HELP
