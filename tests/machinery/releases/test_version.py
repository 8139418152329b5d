"""Releases have an order, and values that change with them."""

from __future__ import annotations

import pytest

from understudy.machinery.releases.version import ByRelease, Version


def test_releases_are_ordered_as_numbers() -> None:
    """1.9 comes before 1.31, though its text is greater."""
    assert Version.parse("1.9") < Version.parse("1.31") < Version.parse("2.0")


def test_previews_have_what_came_with_their_release() -> None:
    """A preview of 1.38 comes after 1.37 and before 1.39, and what changed with 1.38 has changed in it."""
    preview = Version.parse("1.38-alpha")
    assert preview >= Version(1, 38)
    assert Version(1, 37) < preview < Version(1, 39)
    assert (preview.is_preview, preview.number, preview.previous) == (True, "1.38", Version(1, 37))
    assert not Version(1, 38).is_preview


@pytest.mark.parametrize("text", ["1.31", "1.32", "10.0", "1.38-alpha", "1.38-rc"])
def test_text_of_a_release(text: str) -> None:
    """A release is written as it was read."""
    assert str(Version.parse(text)) == f"{Version.parse(text)}" == text


@pytest.mark.parametrize("text", ["", "1", "1.x", "v1.32", "1.32.5", "1.38-", "1.38-dev", "1.38-alpha.0"])
def test_other_texts_are_no_release(text: str) -> None:
    """Only major and minor numbers name a release."""
    with pytest.raises(ValueError, match="invalid literal"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        *[(text, "1.32") for text in ("v1.32.5", "v1.32.5+k3s1", "v1.32.0-gke.100", "v1.32.1-eks-3c31de4")],
        *[("v1.38.0-alpha.0", "1.38-alpha"), ("v1.38.0-rc.1.12+3f4e8d7", "1.38-rc")],
    ],
)
def test_release_of_a_build(text: str, release: str) -> None:
    """A server says the version of its build, which may have the stage of a release, or words of who built it."""
    assert Version.of_build(text) == Version.parse(release)


def test_other_texts_are_no_build() -> None:
    """A text without a version of Kubernetes at its beginning is a mistake."""
    with pytest.raises(ValueError, match=r"no version of a build of Kubernetes: '1\.32'"):
        Version.of_build("1.32")


VALUES = ByRelease({Version(1, 34): "newest", Version(1, 31): "oldest"})


@pytest.mark.parametrize(
    ("release", "value"), [("1.31", "oldest"), ("1.33", "oldest"), ("1.34", "newest"), ("1.40", "newest")]
)
def test_value_holds_until_the_next_change(release: str, value: str) -> None:
    """The newest entry that is not after the release holds."""
    assert VALUES[Version.parse(release)] == value


def test_no_value_before_the_first_entry() -> None:
    """A release before the first entry is a mistake."""
    with pytest.raises(KeyError):
        VALUES[Version(1, 30)]
