"""Conditions: replaced in their place, with the time of their last change of status."""

from __future__ import annotations

from understudy.machinery.types import with_condition

READY = {"type": "Ready", "status": "True", "reason": "a", "lastTransitionTime": "2020-01-01T00:00:00Z"}
OTHER = {"type": "Other", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
NOW = "2030-01-01T00:00:00Z"


def test_a_new_condition_is_the_last() -> None:
    """A new condition stands last and bears the time at which it is set."""
    assert with_condition([OTHER], {"type": "Ready", "status": "True"}, NOW) == [
        OTHER,
        {"type": "Ready", "status": "True", "lastTransitionTime": NOW},
    ]


def test_the_time_is_that_of_the_last_change_of_status() -> None:
    """A new reason leaves the time, a new status does not; the condition keeps its place."""
    same = {"type": "Ready", "status": "True", "reason": "b"}
    assert with_condition([READY, OTHER], same, NOW) == [{**READY, "reason": "b"}, OTHER]
    changed = {"type": "Ready", "status": "False", "reason": "b"}
    assert with_condition([READY, OTHER], changed, NOW) == [{**changed, "lastTransitionTime": NOW}, OTHER]


def test_stored_conditions_are_not_edited() -> None:
    """The list and its conditions may belong to a stored object."""
    before = [dict(READY)]
    with_condition(before, {"type": "Ready", "status": "False"}, NOW)
    assert before == [READY]
