"""Stories of servers that hold as many requests as they may, beside what kube-apiserver answered to the same requests.

Recorded with `python -m scripts.compare limits … --release RELEASE --save recorded/RELEASE.jsonl`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.compare.cases.limit_stories import STORIES
from scripts.compare.limits import played
from tests.stories import cases, recorded_stories

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

RECORDED = recorded_stories(Path(__file__).with_name("recorded"))


@pytest.mark.parametrize(("release", "name"), cases(RECORDED))
def test_stories_go_as_with_the_real_server(release: str, name: str) -> None:
    """Status, headers and body of every answer agree, of requests that are held and of those that come meanwhile."""
    assert played(STORIES[name], None, release) == RECORDED[release, name]
