"""Devices that have to be attached before a pod is bound."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.objects import allocated, claim
from understudy.controlplane.scheduler.plugins.dynamicresources.binding_conditions import (
    BindingConditionError,
    has_binding_conditions,
    is_overdue,
    is_ready,
)
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp

SINCE = "2025-01-01T00:00:00Z"


def slow_claim(*conditions: tuple[str, str], device: str = "dev-0", **fields: Any) -> Obj:
    """Return an allocated claim whose device has conditions."""
    status = allocated("dev-0")
    names = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}
    status["allocation"]["devices"]["results"][0].update(fields or names)
    status["allocation"]["allocationTimestamp"] = SINCE
    listed = [{"type": name, "status": value, "reason": "R", "message": 'it "broke"'} for name, value in conditions]
    status["devices"] = [{"driver": "d.example", "pool": "n", "device": device, "conditions": listed}]
    return claim(status=status)


@pytest.mark.parametrize(
    ("claim", "ready"),
    [
        (slow_claim(), False),
        (slow_claim(("attached", "False")), False),
        (slow_claim(("attached", "True")), True),
        (slow_claim(("attached", "True"), ("failed", "False")), True),
        (slow_claim(("attached", "True"), device="dev-1"), False),
        (slow_claim(("failed", "True"), bindingConditions=[]), True),
    ],
)
def test_all_conditions_have_to_be_true(claim: Obj, ready: bool) -> None:
    """A device without status is not attached; one without conditions need not be."""
    assert is_ready(claim) is ready


def test_failure_has_kube_schedulers_words() -> None:
    """A failure condition that is true ends the attempt, whatever the other conditions are."""
    text = 'device binding failed: claim=c, reason=R, message="it \\\\"broke\\\\""'
    with pytest.raises(BindingConditionError, match=f"^{text}$"):
        is_ready(slow_claim(("attached", "True"), ("failed", "True")))


@pytest.mark.parametrize(("seconds", "overdue"), [(600, False), (601, True)])
def test_devices_have_ten_minutes(seconds: int, overdue: bool) -> None:
    """Time runs from the allocation; a claim without such devices is never overdue."""
    now = parse_timestamp(SINCE) + seconds
    assert is_overdue(slow_claim(), now) is overdue
    assert not is_overdue(slow_claim(request="r"), now)
    assert has_binding_conditions(slow_claim())
    assert not has_binding_conditions(slow_claim(request="r"))
