"""The scripts that measure: what they print on a small scale. Their figures are no matter of tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.maintenance


def measure(*words: str) -> list[str]:
    """Run a command of the scripts; return the lines that it prints, each without its figures."""
    command = [sys.executable, "-m", "scripts.measure", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return [re.split(r"  +", line)[0] for line in done.stdout.splitlines()]


def test_growth_is_measured() -> None:
    """Each request is measured with each number of objects, and a write beside each kind of watcher."""
    lines = measure("growth", "--objects", "50", "--watchers", "2", "--seconds", "0.3")
    assert lines == [
        "µs of CPU, by the claims that are stored",
        "start",
        "GET a claim",
        "LIST 100 by label",
        "LIST, limit 500",
        "PATCH a claim",
        "CREATE a claim",
        "busiest pause",
        "",
        "µs of CPU per CREATE, by watchers",
        "of another namespace",
        "of another label",
        "of another name",
        "that see it",
    ]


def test_servers_are_measured_side_by_side() -> None:
    """CPU and rate are printed for the requests that are chosen."""
    lines = measure("beside", "--only", "GET", "--rounds", "1", "--seconds", "0.3")
    of_each = ["GET a claim, 16 connections", "GET a claim, 1 connection"]
    assert lines == ["µs of CPU per request", *of_each, "", "requests per second", *of_each]


def test_parts_of_requests_are_timed() -> None:
    """Decoding, validation, CEL and verbs are timed in process, one line each."""
    lines = measure("micro", "--quick")
    assert {"decode a claim, 582 bytes", "CEL: evaluate", "GET a claim", "PATCH a claim's label"} <= {*lines}
