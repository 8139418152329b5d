"""Run the commands of `scripts` in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(package: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `python -m scripts.PACKAGE` and return what it has printed."""
    command = [sys.executable, "-m", f"scripts.{package}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)
