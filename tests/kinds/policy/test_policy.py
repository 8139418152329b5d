"""Disruption budgets."""

from __future__ import annotations

import pytest

from tests.http import exchange
from understudy import Server


@pytest.mark.parametrize("digits", ["101", "1" * 5000])
def test_percentage_above_100_is_refused(apiserver: Server, digits: str) -> None:
    """A percentage must not exceed 100 %, with any number of digits."""
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": f"{digits}%"}}
    status, answer = exchange(apiserver, "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert (status, answer["message"].rpartition(": ")[2]) == (422, "must not be greater than 100%")
