"""`.ci/run`: what it refuses, and its last line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".ci" / "run"


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """Return a PATH on which there is no Go."""
    for name in ("bash", "dirname", "env", "rm"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("argv", "env", "code", "message"),
    [
        ([], {}, 1, "Without Go, .ci/run --without-go runs the others."),
        ([], {"CI": "true"}, 1, "the tests need Go"),
        (["--without-go"], {"CI": "true"}, 2, "in CI nothing is left out"),
        (["--without-g"], {}, 2, "usage: .ci/run [--without-go]"),
    ],
)
def test_nothing_is_left_out_unasked(
    argv: list[str], env: dict[str, str], code: int, message: str, programs: str
) -> None:
    """Without Go it fails, in CI also when it is asked to do without; the last line says that it has failed."""
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [RUN, *argv], env=clean | {"PATH": programs} | env, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (code, "== FAILED: the arguments\n")
    assert message in done.stderr


def test_some_tests_are_there() -> None:
    """The folders that are tested with each set of dependencies on each Python exist."""
    [folders] = re.findall(r"^SOME=\(([^)]*)\)", RUN.read_text(), re.MULTILINE)
    assert folders.split()
    assert [folder for folder in folders.split() if not (ROOT / folder).is_dir()] == []
