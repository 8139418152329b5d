"""The group-versions that a server knows (upstream: those registered in its schemes), served or not.

Those that are not served any more are known for long: `--runtime-config` accepts them, and OpenAPI documents say that
kinds such as `DeleteOptions` belong to them.
"""

from __future__ import annotations

from functools import cache

from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version


@cache
def registered(version: Version) -> frozenset[tuple[str, str]]:
    """Return (group, version) of everything that a release knows."""
    names: list[str] = read_release_file(version, "release.json")["groupVersions"]
    return frozenset((group, version) for group, _, version in (name.rpartition("/") for name in names))
