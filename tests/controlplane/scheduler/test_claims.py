"""The scheduler's view of claims, and the devices that it takes to be in use."""

from __future__ import annotations

import pytest

from tests.controlplane.scheduler.objects import allocated, claim
from understudy.controlplane.allocator import AllocatedState, Rules
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.machinery.releases.version import V1_36


@pytest.fixture
def tracker() -> ClaimTracker:
    return ClaimTracker(AllocatedState(Rules.of(V1_36)))


def in_use(tracker: ClaimTracker) -> dict[str, list[str]]:
    return tracker.allocated.devices


def test_older_state_is_ignored(tracker: ClaimTracker) -> None:
    """A watch may lag behind the answer to one's own write."""
    tracker.put(claim(status=allocated("dev-0"), version=5))
    tracker.put(claim(version=4))
    assert in_use(tracker) == {"d.example/n/dev-0": ["default/c"]}


def test_claim_that_was_replaced_frees_its_devices(tracker: ClaimTracker) -> None:
    """A claim of the same name is another one if its uid differs, whatever its version."""
    tracker.put(claim(status=allocated("dev-0"), version=5))
    tracker.put(claim(version=6, metadata={"uid": "new"}))
    assert in_use(tracker) == {}
    tracker.remove(claim(version=6))
    assert tracker.get("default", "c") is not None


def test_pending_devices_are_in_use_once(tracker: ClaimTracker) -> None:
    """A device stays in use while its claim goes from pending to written, and is free when that fails."""
    free, taken = claim(version=1), claim(status=allocated("dev-0"), version=1)
    tracker.put(free)
    tracker.add_pending(taken)
    assert tracker.get("default", "c") == free
    assert tracker.is_pending("uid-c")
    assert in_use(tracker) == {"d.example/n/dev-0": ["default/c"]}
    tracker.put(claim(status=allocated("dev-0"), version=2))
    assert tracker.remove_pending(free)
    assert in_use(tracker) == {"d.example/n/dev-0": ["default/c"]}
    tracker.put(claim(version=3))
    assert in_use(tracker) == {}
    tracker.add_pending(taken)
    assert tracker.remove_pending(free)
    assert in_use(tracker) == {}
    assert not tracker.remove_pending(free)


def test_deleted_claim_frees_its_devices(tracker: ClaimTracker) -> None:
    """A claim that is gone uses nothing, and is not known any more."""
    tracker.put(claim(status=allocated("dev-0")))
    tracker.remove(claim(status=allocated("dev-0")))
    assert in_use(tracker) == {}
    assert tracker.get("default", "c") is None
