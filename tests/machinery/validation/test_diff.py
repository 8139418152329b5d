"""Differences of Go values. A line of `diff.jsonl` is {"type", "x", "y", "text"}: two values of an internal type of
core in 1.32, made up at random, and what `cmp.Diff` of go-cmp 0.6.0 prints for them with plain spaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.machinery.releases.version import V1_32
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.validation.diff import diff

SCHEMAS = Schemas.of(V1_32)
CORE = "k8s.io/kubernetes/pkg/apis/core."
CASES = [json.loads(line) for line in (Path(__file__).parent / "diff.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["type"])
def test_difference_is_that_of_go_cmp(case: Any) -> None:
    """The difference of two values is go-cmp's, to the letter."""
    assert diff(case["x"], case["y"], CORE + case["type"], SCHEMAS) == case["text"]


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case["type"])
def test_equal_values_have_no_difference(case: Any) -> None:
    """Equal values have an empty difference."""
    assert diff(case["x"], case["x"], CORE + case["type"], SCHEMAS) == ""


CONDITION = {"type": "Approved", "status": "True", "lastUpdateTime": "2024-01-02T03:04:05Z"}
CERTIFICATES = "k8s.io/kubernetes/pkg/apis/certificates."


def test_lists_can_be_compared() -> None:
    """Lists can be compared, and times print themselves."""
    assert diff(
        [CONDITION],
        [{**CONDITION, "message": "no", "lastUpdateTime": "2025-01-02T03:04:05Z"}],
        f"[]{CERTIFICATES}CertificateSigningRequestCondition",
        SCHEMAS,
    ).splitlines() == [
        "  []certificates.CertificateSigningRequestCondition{",
        "  \t{",
        '  \t\tType:               "Approved",',
        '  \t\tStatus:             "True",',
        '  \t\tReason:             "",',
        '- \t\tMessage:            "",',
        '+ \t\tMessage:            "no",',
        '- \t\tLastUpdateTime:     v1.Time{Time: s"2024-01-02 03:04:05 +0000 UTC"},',
        '+ \t\tLastUpdateTime:     v1.Time{Time: s"2025-01-02 03:04:05 +0000 UTC"},',
        "  \t\tLastTransitionTime: {},",
        "  \t},",
        "  }",
    ]
