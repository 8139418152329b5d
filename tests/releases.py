"""The releases that tests run on.

A rule that every release has is tested on all of them, or on the newest where more would only take time. Recordings,
and facts that changed with a release, name their release.
"""

from __future__ import annotations

import pytest

from understudy.apiserver.serving.release import DEFAULT, Release, previews, releases
from understudy.apiserver.serving.runtime_config import served as what_is_served
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version

RELEASES = releases()  # every release that can be emulated, oldest first
NEWEST = Version.parse(DEFAULT)  # the newest one
NEWEST_AND_PREVIEWS = [NEWEST, *previews()]  # for what holds in a preview too, of which there may be none


def often(yes: bool) -> list[pytest.MarkDecorator]:
    """Return the marks of a case: none for one of every run, that of -m every_recording for any other."""
    return [] if yes else [pytest.mark.every_recording]


# The oldest and the newest release in every run; the others with -m every_recording.
every_release = pytest.mark.parametrize(
    "release",
    [pytest.param(release, marks=often(release in {RELEASES[0], NEWEST})) for release in RELEASES],
    ids=str,
)


def since(first: Version) -> list[Version]:
    """Return the releases from `first` on."""
    return [release for release in RELEASES if release >= first]


def served(
    release: Version, runtime_config: dict[str, bool] | None = None, gates: dict[str, bool] | None = None
) -> Release:
    """Return a release with what a server of it serves, given its flags."""
    return what_is_served(Release.of(release), runtime_config or {}, Gates.of(release, gates))
