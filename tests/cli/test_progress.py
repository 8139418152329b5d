"""The line that says on a terminal how far a command has come."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from understudy import Server
from understudy.cli import main as cli
from understudy.cli import output, program

WORLD = Path(__file__).parents[2] / "fixtures" / "allocation.yaml"
CLEAR = "\r\x1b[K"


def read_terminal(patch: pytest.MonkeyPatch, *words: str) -> str:
    """Run a command whose stderr is a terminal; return what it has written there."""
    return written_by(patch, partial(cli.main, [*words]))


def written_by(patch: pytest.MonkeyPatch, run: Callable[[], object]) -> str:
    """Call a function while stderr is a terminal; return what it has written there."""
    parent, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream, patch.context() as patched:
        patched.setattr(output, "INTERVAL", 0)
        patched.setattr(sys, "stderr", stream)
        run()
    written = []
    with os.fdopen(parent, "rb", 0) as stream, suppress(OSError):  # EIO at the end
        while part := stream.read(65536):
            written.append(part)
    return b"".join(written).decode()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return a folder with three manifests."""
    for name in ("a", "b", "c"):
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_terminal_shows_files(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows how many files are read and checked, in a line that is gone when the summary comes."""
    written = read_terminal(monkeypatch, "validate", str(manifests))
    read, checked = ("".join(f"{CLEAR}{done} of 3 files {how}" for done in range(3)) for how in ("read", "checked"))
    assert written.startswith(f"{read}{CLEAR}{checked}{CLEAR}3 files, 3 objects")


def test_terminal_shows_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows the number of nodes that were looked at for a claim."""
    written = read_terminal(monkeypatch, "explain-allocation", str(WORLD), "--claim", "default/training")
    assert f"{CLEAR}0 of 1 nodes looked at" in written
    assert written.endswith(CLEAR)


def test_terminal_shows_objects_that_a_server_begins_with(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows how many objects are loaded, whose number is not known before."""

    async def use(server: Server, stopped: Future[None]) -> None:
        assert server.state.registry.store.count("/registry/configmaps/default/") == 3

    written = written_by(monkeypatch, lambda: program.run_server(lambda: {"load": [manifests]}, use))
    assert written == "".join(f"{CLEAR}{done} objects loaded" for done in range(3)) + CLEAR


def test_terminal_shows_what_snapshots_copy_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows the number of writes that are copied, and of objects that are read to be compared."""
    first, second = str(tmp_path / "first.db"), str(tmp_path / "second.db")
    with Server(storage=f"sqlite:{first}") as server:
        last = server.state.registry.store.revision
    written = read_terminal(monkeypatch, "snapshot", "save", f"sqlite:{first}", second)
    assert f"{CLEAR}1 of {last - 1} writes copied{CLEAR}" in written
    assert written.endswith(f"{CLEAR}understudy: {last - 1} objects up to revision {last}\r\n")
    assert " objects read" in read_terminal(monkeypatch, "snapshot", "diff", f"sqlite:{first}", f"sqlite:{second}")


def test_quick_work_shows_nothing(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is over before the first interval shows no line."""
    parent, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(output, "INTERVAL", 1e9)
        monkeypatch.setattr(sys, "stderr", stream)
        cli.main(["validate", str(manifests)])
        stream.flush()
        assert " of 3 files" not in os.read(parent, 65536).decode()
    os.close(parent)


def test_others_see_no_progress(
    manifests: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the summary is printed if stderr is no terminal."""
    monkeypatch.setattr(output, "INTERVAL", 0)
    cli.main(["validate", str(manifests)])
    assert capsys.readouterr().err.splitlines()[0].startswith("3 files, 3 objects")
