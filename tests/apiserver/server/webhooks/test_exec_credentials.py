"""Commands that print credentials: how often they run. What they are told and may print is recorded, see
`tests/apiserver/authorization/webhook`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from understudy.apiserver.server.webhooks.exec_credentials import ExecCredentials
from understudy.machinery.auth.exec_credential import CredentialsError
from understudy.machinery.auth.exec_plugin import GROUP, NEVER, ExecPlugin
from understudy.machinery.releases.version import V1_37

PRINTED = {"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential", "status": {"token": "t"}}


def credentials(script: str, command: str = "sh", hint: str = "") -> ExecCredentials:
    """Return the credentials that a script prints."""
    return ExecCredentials(ExecPlugin(command, ("-c", script), (), "v1", NEVER, hint, b""), V1_37)


async def test_command_runs_once_for_all_who_wait(tmp_path: Path) -> None:
    """Calls at the same time wait for one run, also if one of them gives up, and credentials that were refused are
    printed anew once."""
    ran = tmp_path / "ran"
    asked = credentials(f"sleep 0.1; echo x >> {ran}; echo '{json.dumps(PRINTED)}'")
    impatient = asyncio.create_task(asked.get())
    waiting = [asyncio.create_task(asked.get()) for _ in range(3)]
    await asyncio.sleep(0)
    impatient.cancel()
    first, *others = await asyncio.gather(*waiting)
    assert first.token == "t"
    assert all(each is first for each in others)
    await asyncio.gather(asked.refresh(first), asked.refresh(first))
    await asked.refresh(first)
    assert ran.read_text() == "x\n" * 2


async def test_command_that_runs_is_ended() -> None:
    """A command does not outlive the client of webhooks."""
    asked = credentials("exec sleep 600")
    running = asyncio.create_task(asked.get())
    while asked._process is None:
        await asyncio.sleep(0.01)
    asked.close()
    with pytest.raises(CredentialsError, match="exec: executable sh failed with exit code -1"):
        await running


async def test_hint_is_given_ten_times_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error says how to install a command that is not there, but not always."""
    now = 0.0
    monkeypatch.setattr("understudy.apiserver.server.webhooks.exec_credentials.time.monotonic", lambda: now)
    asked = credentials("", "no-such-command", "install it")
    given = []
    for now in (*range(12), 3601.0):  # noqa: B007 - the clock
        with pytest.raises(CredentialsError, match="exec: executable no-such-command not found") as error:
            await asked.get()
        given.append("install it" in str(error.value))
    assert given == [True] * 10 + [False] * 2 + [True]
