"""Rules that differ between releases, as one value for each release, written from the newest downwards.

    LATEST = ReleaseRules()                      # the defaults of its fields are the rules of the newest release
    _V36 = replace(LATEST, most_items=None)      # 1.36 has the rules of the next newer release with some differences
    _RULES = ByRelease({V1_37: LATEST, V1_36: _V36, …})

A new release changes defaults, which the release before it gets back in new lines. An old one goes with the last lines.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Self

from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass

_SET_BY_OF = Version(0, 0)  # a set of rules may be that of several releases: `of` names the one that was asked for


@dataclass(frozen=True)
class RulesOfRelease:
    """The rules of `release` when the feature gates of `enabled` are on."""

    release: Version = _SET_BY_OF
    enabled: frozenset[Gate] = frozenset()

    @classmethod
    @cache
    def of(cls, version: Version, enabled: frozenset[Gate] = frozenset()) -> Self:
        """Return the rules of a release: those of the newest release that changed any, up to this one."""
        return replace(cls._chosen(version, enabled), release=version)

    @classmethod
    def _chosen(cls, version: Version, enabled: frozenset[Gate]) -> Self:
        """Return the rules written for a release, with the gates of `enabled` that matter to them."""
        raise NotImplementedError
