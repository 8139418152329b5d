"""Run scripts/soak.py for a few seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "soak.py"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads its memory from /proc")
def test_watchers_miss_nothing() -> None:
    """Watchers that lose their connections and resume see every event once and in order, and leave nothing behind."""
    sent = [sys.executable, str(SCRIPT), "--watchers", "12", "--seconds", "3"]
    done = subprocess.run(sent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failures" in done.stdout
