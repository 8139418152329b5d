"""Stories of servers that ask webhooks, beside what kube-apiserver did and asked for the same requests.

Recorded with `python -m scripts.compare access … --release RELEASE --save recorded/RELEASE.jsonl`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.common.comparing import differences
from scripts.compare.access import STORIES, played
from tests.stories import cases, recorded_stories

RECORDED = recorded_stories(Path(__file__).with_name("recorded"))


@pytest.mark.maintenance
@pytest.mark.parametrize(("release", "name"), cases(RECORDED))
def test_stories_go_as_with_the_real_server(release: str, name: str) -> None:
    """Every answer agrees, and every review that the webhook got: path, headers, body."""
    found, expected = played(STORIES[name], None, release), RECORDED[release, name]
    assert [line["request"] for line in found] == [line["request"] for line in expected]
    assert [line for pair in zip(expected, found, strict=True) for line in differences(*pair, pair[0]["request"])] == []
