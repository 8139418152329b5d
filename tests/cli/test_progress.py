"""The line that says on a terminal how far a command has come."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from understudy.cli import main as cli
from understudy.cli import output

WORLD = Path(__file__).parents[2] / "fixtures" / "allocation.yaml"
CLEAR = "\r\x1b[K"


def read_terminal(patch: pytest.MonkeyPatch, *words: str) -> str:
    """Run a command whose stderr is a terminal; return what it has written there."""
    parent, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream, patch.context() as patched:
        patched.setattr(output, "INTERVAL", 0)
        patched.setattr(sys, "stderr", stream)
        cli.main([*words])
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
