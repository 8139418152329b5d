"""Rules that differ between releases, written from the newest downwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.controlplane.allocator import rules as allocator
from understudy.kinds.resource.common import release_rules as validation
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.rules import RulesOfRelease
from understudy.machinery.releases.version import V1_31, V1_33, V1_36, ByRelease, Version
from understudy.machinery.types import dataclass

_GATES = frozenset({features.DRA_ADMIN_ACCESS})
_LATER = Version(1, 99)  # a release that changes no rule


@dataclass(frozen=True)
class Rules(RulesOfRelease):
    """The rules of a kind with a limit that 1.33 raised."""

    most_items: int = 32

    @classmethod
    def _chosen(cls, release: Version, enabled: frozenset[Gate]) -> Rules:
        return replace(_RULES[release], enabled=enabled & _GATES)


_LATEST = Rules()
_RULES = ByRelease({V1_33: _LATEST, V1_31: replace(_LATEST, most_items=8)})


@pytest.mark.parametrize(("release", "items"), [(V1_31, 8), (V1_33, 32), (V1_36, 32)], ids=str)
def test_rules_are_those_of_the_release_that_changed_them_last(release: Version, items: int) -> None:
    """A release has the rules of the newest entry up to it, under its own number and with the gates that matter."""
    rules = Rules.of(release, frozenset({features.DRA_ADMIN_ACCESS, features.DRA_DEVICE_TAINTS}))
    assert rules == Rules(release, _GATES, items)
    assert Rules.of(release, rules.enabled) is Rules.of(release, rules.enabled), "made once"


def test_the_newest_release_has_the_defaults() -> None:
    """The defaults of both tables of rules are those of the newest release, and of releases that change none."""
    assert validation.ReleaseRules.of(_LATER) == replace(validation.LATEST, release=_LATER)
    shared = frozenset({features.DRA_CONSUMABLE_CAPACITY})
    assert allocator.Rules.of(_LATER, shared) == replace(allocator.LATEST, release=_LATER, enabled=shared)
