"""Recorded stories: what a real server answered to the requests of each, by release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def recorded_stories(folder: Path) -> dict[tuple[str, str], list[Any]]:
    """Return the lines of the stories in the files RELEASE.jsonl of a folder, by release and name."""
    stories: dict[tuple[str, str], list[Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            stories.setdefault((path.stem, line.pop("story")), []).append(line)
    return stories
