"""Fields behind feature gates."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32

GUARDS = (field_guard(features.JOB_MANAGED_BY, "spec", "managedBy"),)


def job(**spec: Any) -> dict[str, Any]:
    return {"kind": "Job", "spec": spec}


@pytest.mark.parametrize(
    ("on", "old", "kept"),
    [
        (True, None, True),
        (True, job(), True),
        (False, None, False),
        (False, job(), False),
        (False, job(managedBy=None), False),
        (False, job(managedBy="x"), True),
    ],
)
def test_field_of_a_gate(on: bool, old: dict[str, Any] | None, kept: bool) -> None:
    """A field goes while its gate is off, unless the stored object has it; other fields stay."""
    obj = job(managedBy="y", parallelism=1)
    drop_disabled_fields(GUARDS, obj, old, Gates.of(V1_32, {features.JOB_MANAGED_BY: on}))
    assert obj == job(**({"managedBy": "y"} if kept else {}), parallelism=1)


@pytest.mark.parametrize("obj", [{"kind": "Job"}, {"kind": "Job", "spec": None}, job(parallelism=1)])
def test_object_without_the_field(obj: dict[str, Any]) -> None:
    """An object that lacks the field, or what the field is in, stays as it is."""
    before = dict(obj)
    drop_disabled_fields(GUARDS, obj, None, Gates.of(V1_32, {features.JOB_MANAGED_BY: False}))
    assert obj == before
