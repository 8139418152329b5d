"""`pytest --no-skips`: what is skipped fails."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.maintenance

SKIPPED = "import pytest\n\ndef test_one(): pass\n\ndef test_two(): pytest.skip('no reason')\n"


@pytest.mark.parametrize("workers", [0, 1])
def test_skipped_test_fails_the_run(workers: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with a skipped test fails with `--no-skips`, says so, and passes without; a module counts as well."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = ("-p", "tests.no_skips", "-n", str(workers))
    pytester.makepyfile(SKIPPED)
    assert pytester.runpytest_subprocess(*options).ret == 0
    skipping = pytester.runpytest_subprocess(*options, "--no-skips")
    assert skipping.ret == 1
    skipping.stdout.fnmatch_lines(["--no-skips: 1 skipped", "*1 passed, 1 skipped in *"])
    pytester.makepyfile("import pytest\n\npytest.importorskip('no_such_module')\n")
    assert pytester.runpytest_subprocess(*options, "--no-skips").ret not in (0, 2)
    pytester.makepyfile("def test_one(): pass\n")
    assert pytester.runpytest_subprocess(*options, "--no-skips").ret == 0
