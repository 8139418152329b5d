"""Files that were recorded from the server of a release, in `schemas/RELEASE`."""

from __future__ import annotations

from importlib import resources
from typing import Any

import orjson

from understudy.machinery.releases.version import Version


def read_release_file(version: Version, name: str) -> Any:
    """Return the content of the JSON file `schemas/RELEASE/NAME`."""
    return orjson.loads((resources.files("understudy.schemas") / str(version) / name).read_bytes())
