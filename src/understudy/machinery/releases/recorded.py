"""Files that were recorded from the server of a release, in `schemas/RELEASE`.

The folder of a preview has only the files that differ from those of the release before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from understudy.machinery.releases.version import Version
from understudy.schemas import SCHEMAS


def read_release_file(version: Version, name: str) -> Any:
    """Return the content of the JSON file `schemas/RELEASE/NAME`."""
    return orjson.loads(release_file(version, name).read_bytes())


def release_file(version: Version, name: str) -> Path:
    """Return the file `schemas/RELEASE/NAME`, which may be missing."""
    own = SCHEMAS / str(version) / name
    if version.is_preview and not own.is_file():
        return SCHEMAS / str(version.previous) / name
    return own
