"""Matching of labels by the label selectors of specs."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.common import label_selectors


def term(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        (None, {}, False),
        ({}, {}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {}, False),
        (term("In", "b", "c"), {"a": "c"}, True),
        (term("NotIn", "b"), {}, True),
        (term("NotIn", "b"), {"a": "b"}, False),
        (term("Exists"), {"a": ""}, True),
        (term("DoesNotExist"), {"a": ""}, False),
    ],
)
def test_selector_matches_labels(selector: dict[str, Any] | None, labels: dict[str, str], matches: bool) -> None:
    """No selector matches nothing, and an empty one matches everything."""
    assert label_selectors.matches(selector, labels) is matches
