"""Recorded stories: what a real server answered to the requests of each, by release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.releases import often
from understudy.machinery.releases.version import Version


def recorded_stories(folder: Path) -> dict[tuple[str, str], list[Any]]:
    """Return the lines of the stories in the files RELEASE.jsonl of a folder, by release and name."""
    stories: dict[tuple[str, str], list[Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            stories.setdefault((path.stem, line.pop("story")), []).append(line)
    return stories


def cases(stories: dict[tuple[str, str], list[Any]]) -> list[Any]:
    """Return the releases and names of stories as parameters: the newest release of each for every run, and the others
    for -m every_recording."""
    newest = {name: release for release, name in sorted(stories, key=lambda key: Version.parse(key[0]))}
    return [pytest.param(release, name, marks=often(release == newest[name])) for release, name in stories]
