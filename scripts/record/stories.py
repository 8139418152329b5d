"""Record the stories of `fixtures/controllers` again: what the controllers beside a server make of them in the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from scripts.common.comparing import Obj, Server
from scripts.compare.cases.controller_stories import digest, read_stories
from scripts.compare.controllers import controllers_beside, told
from understudy.machinery.releases.version import Version

SETTLE = 8.0  # seconds that controllers may take until they follow the server
REST = 2.0  # seconds without a change after each step


def again(path: Path, version: Version, server: Server, controllers: str) -> list[Obj]:
    """Return the stories of a file, FILE-RELEASE.jsonl, that a release can tell, with the objects in their ends."""
    stories = read_stories(version, f"{path.stem.partition('-')[0]}.yaml")
    with controllers_beside(controllers, server.url, server.token, SETTLE):
        tellings = asyncio.run(told(server.url, server.token, version, stories, REST))
    return [line_of(story["story"], tellings[story["story"]]) for story in stories]


def line_of(story: str, ends: list[list[Obj]]) -> Obj:
    """Return a story with the objects in the end, and the digests of those at the end of each step."""
    line = {"story": story, "end": ends[-1], "digests": [digest(end) for end in ends]}
    return dict(json.loads(json.dumps(line, sort_keys=True)))
