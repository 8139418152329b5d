"""Allocations that the allocator of each release was asked for, with its answers (see `understudy allocate`).

`cases/RELEASE.jsonl` holds a case a line with `answers`: all that the real allocator gives, any of which is right: up
to 1.35 it visits pools in random order. Share ids are `<share:1>`, … in the order of the results, and addresses of
memory in errors that print a device are `<address>`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.compare.allocator import normal
from understudy.cli.commands.allocate_command import answer_of
from understudy.machinery.releases.version import Version

CASES = [
    pytest.param(Version.parse(path.stem), case, id=f"{path.stem}-{case['case']}")
    for path in sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
    for case in map(json.loads, path.read_text().splitlines())
]


@pytest.mark.parametrize(("release", "case"), CASES)
def test_recorded_allocation(release: Version, case: dict[str, Any]) -> None:
    """A case gets one of the answers that the real allocator gives."""
    answer = normal(answer_of(case, release), {})
    assert answer in [normal(recorded, {}) for recorded in case["answers"]]
