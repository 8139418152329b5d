"""`pytest --no-skips`: what is skipped fails."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.maintenance

SKIPPED = "import pytest\n\ndef test_one(): pass\n\ndef test_two(): pytest.skip('no reason')\n"


OPTIONS = ("-p", "tests.no_skips")


@pytest.fixture(autouse=True)
def option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pytest find the option."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.parametrize("workers", [0, 1])
def test_skipped_test_fails_the_run(workers: int, pytester: pytest.Pytester) -> None:
    """A run with a skipped test fails with `--no-skips`, and says so."""
    pytester.makepyfile(SKIPPED)
    skipping = pytester.runpytest_subprocess(*OPTIONS, "-n", str(workers), "--no-skips")
    assert skipping.ret == 1
    skipping.stdout.fnmatch_lines(["--no-skips: 1 skipped", "*1 passed, 1 skipped in *"])


def test_skipped_module_fails_the_run(pytester: pytest.Pytester) -> None:
    """A module that is skipped counts as well."""
    pytester.makepyfile("import pytest\n\npytest.importorskip('no_such_module')\n")
    assert pytester.runpytest_subprocess(*OPTIONS, "--no-skips").ret not in (0, 2)


def test_other_runs_pass(pytester: pytest.Pytester) -> None:
    """A run with a skipped test passes without `--no-skips`, and one without such a test passes with it."""
    pytester.makepyfile(SKIPPED)
    assert pytester.runpytest_subprocess(*OPTIONS).ret == 0
    pytester.makepyfile("def test_one(): pass\n")
    assert pytester.runpytest_subprocess(*OPTIONS, "--no-skips").ret == 0
