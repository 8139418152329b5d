"""Releases of Kubernetes as values that have an order.

    release = Version.parse("1.32")
    release >= V1_32                                        # a rule that came with 1.32
    PREFIX = ByRelease({V1_31: "prefix", V1_32: "domain"})  # a value that changed with 1.32
    PREFIX[release]                                         # "domain", in every later release as well
    Version.parse("1.38-alpha") >= V1_38                    # what came with 1.38 is in its previews

Nothing else compares releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

T = TypeVar("T")


STAGES = ("alpha", "beta", "rc")
_BUILD = regex(r"v(\d+)\.(\d+)\.\d+(?:-(alpha|beta|rc)\.\d)?", re.ASCII)


class Version(NamedTuple):
    """A minor release of Kubernetes. Later ones are greater; `str` writes "1.32".

    stage  of the preview of a release that is not there yet: "alpha" in "1.38-alpha"; "" for a release
    """

    major: int
    minor: int
    stage: str = ""

    @staticmethod
    def parse(text: str) -> Version:
        """Return the release of a text such as "1.32" or "1.38-alpha". Raises ValueError for any other text."""
        number, dash, stage = text.partition("-")
        major, _, minor = number.partition(".")
        if dash and stage not in STAGES:
            raise ValueError(f"invalid literal for a stage: {stage!r}")
        return Version(int(major), int(minor), stage)

    @staticmethod
    def of_build(text: str) -> Version:
        """Return the release of the version of a program: "v1.32.5", "v1.32.5+k3s1", "v1.38.0-alpha.0". Raises
        ValueError for any other text."""
        match = _BUILD.match(text)
        if match is None:
            raise ValueError(f"no version of a build of Kubernetes: {text!r}")
        return Version(int(match[1]), int(match[2]), match[3] or "")

    @property
    def is_preview(self) -> bool:
        """Report whether the release is not there yet."""
        return bool(self.stage)

    @property
    def number(self) -> str:
        """Return "1.38", in previews as well."""
        return f"{self.major}.{self.minor}"

    @property
    def previous(self) -> Version:
        """Return the release before this one."""
        return Version(self.major, self.minor - 1)

    def __str__(self) -> str:
        return f"{self.number}-{self.stage}" if self.stage else self.number


V1_31 = Version(1, 31)
V1_32 = Version(1, 32)
V1_33 = Version(1, 33)
V1_34 = Version(1, 34)
V1_35 = Version(1, 35)
V1_36 = Version(1, 36)
V1_37 = Version(1, 37)


class ByRelease(Generic[T]):
    """A value that changes with releases: the newest entry that is not after a release holds for it."""

    def __init__(self, since: Mapping[Version, T]) -> None:
        self._newest_first = sorted(since.items(), key=lambda entry: entry[0], reverse=True)

    def __getitem__(self, version: Version) -> T:
        """Return the value that holds for a release. Raises KeyError for a release before the first entry."""
        for since, value in self._newest_first:
            if since <= version:
                return value
        raise KeyError(version)

    def get(self, version: Version) -> T | None:
        """Return the value that holds for a release, None before the first entry."""
        return next((value for since, value in self._newest_first if since <= version), None)

    def items(self) -> Sequence[tuple[Version, T]]:
        """Return each value with the release since which it holds, oldest first."""
        return self._newest_first[::-1]
