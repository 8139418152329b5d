"""Plugins register by a socket in a directory, and are told the outcome."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import running, until
from understudy.controlplane.kubelet import pluginmanager
from understudy.controlplane.kubelet.dra.api import V1
from understudy.controlplane.kubelet.pluginmanager import PluginManager, RegistrationError, RegistrationStatus
from understudy.testing import FakeDriver


@dataclass
class Handler:
    """Notes what it is told; refuses to validate or to take plugins if it is given a reason."""

    lines: list[str] = field(default_factory=list)
    invalid: str = ""
    refused: str = ""

    def validate(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        if self.invalid:
            raise RegistrationError(self.invalid)

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        if self.refused:
            raise RegistrationError(self.refused)
        self.lines.append(f"+{Path(endpoint).name} {' '.join(versions)}")

    async def deregister(self, name: str, endpoint: str) -> None:
        self.lines.append(f"-{Path(endpoint).name}")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pluginmanager, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(pluginmanager, "FIRST_BACKOFF", 0.01)


def managing(root: Path, handler: Handler) -> AbstractAsyncContextManager[object]:
    """Run a plugin manager until the end of the block."""
    return running(PluginManager(root / "plugins_registry", {"DRAPlugin": handler}).run())


async def test_plugins_come_and_go(root: Path) -> None:
    """A plugin is registered while its socket is there, be it older or newer than the kubelet."""
    handler = Handler()
    async with FakeDriver(root, "a", versions=(V1,)) as older, managing(root, handler):
        assert await older.registered() == RegistrationStatus(True)
        async with FakeDriver(root, "b", versions=(V1,)) as newer:
            await newer.registered()
        await until(lambda: len(handler.lines) == 3)
    assert handler.lines == ["+a.sock v1.DRAPlugin", "+b.sock v1.DRAPlugin", "-b.sock"]


async def test_replaced_socket(root: Path) -> None:
    """A socket in place of another one is another plugin: the first is deregistered, the second registered."""
    handler = Handler()
    async with FakeDriver(root, "a", versions=(V1,)) as first, managing(root, handler):
        await first.registered()
        async with FakeDriver(root, "a", versions=("v2",)) as second:
            await second.registered()
            assert handler.lines == ["+a.sock v1.DRAPlugin", "-a.sock", "+a.sock v2"]


@pytest.mark.parametrize(
    ("driver", "handler", "error"),
    [
        ({"plugin_type": "CSIPlugin"}, {}, "no handler registered for plugin type: CSIPlugin at socket {socket}"),
        ({}, {"invalid": "bad"}, "plugin validation failed with err: bad"),
        ({}, {"refused": "full"}, "plugin registration failed with err: full"),
    ],
    ids=["type", "invalid", "refused"],
)
async def test_refusals(root: Path, driver: dict[str, str], handler: dict[str, Any], error: str) -> None:
    """A plugin that is not taken is told why, and asked again later."""
    handling = Handler(**handler)
    async with FakeDriver(root, "a", **driver) as plugin, managing(root, handling):  # type: ignore[arg-type]
        status = await plugin.registered()
        text = error.format(socket=plugin.registration_socket)
        assert status == RegistrationStatus(False, f"RegisterPlugin error -- {text}")
        handling.invalid = handling.refused = ""
        if handler:
            await until(lambda: plugin.statuses[-1].plugin_registered)


async def test_what_is_no_plugin(root: Path) -> None:
    """Files, hidden sockets, and sockets that nobody listens on do not keep others from registering."""
    handler = Handler()
    registry = root / "plugins_registry"
    async with FakeDriver(root, "../plugins_registry/.hidden", instance="") as hidden, managing(root, handler):
        (registry / "file-reg.sock").write_text("")
        async with FakeDriver(root, "a", versions=(V1,)) as plugin:
            await plugin.registered()
            assert [handler.lines, hidden.statuses] == [["+a.sock v1.DRAPlugin"], []]


async def test_sockets_in_folders(root: Path) -> None:
    """Sockets are found in folders of the directory, those that come later included."""
    handler = Handler()
    async with managing(root, handler), FakeDriver(root, "deep/a") as plugin:
        assert (await plugin.registered()).plugin_registered
