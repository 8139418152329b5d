"""Fields of pods that are dropped if their feature gate is off; 1.34 is the last release that can switch claims off."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.core.pods import pod_disabled_fields
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34

CLAIM = {"name": "c", "resourceClaimName": "x"}


def spec() -> dict[str, Any]:
    resources = {"claims": [{"name": "c"}]}
    return {"resourceClaims": [dict(CLAIM)], "containers": [{"name": "a", "resources": resources}]}


@pytest.mark.parametrize(("on", "kept"), [(True, True), (False, False)])
def test_claims_are_dropped_if_gate_is_off(on: bool, kept: bool) -> None:
    """Without DynamicResourceAllocation the claims of a pod are dropped, those of its containers as well."""
    pod_spec = spec()
    pod_disabled_fields.drop_spec(pod_spec, None, Gates.of(V1_34, {"DynamicResourceAllocation": on}))
    assert ("resourceClaims" in pod_spec, "claims" in pod_spec["containers"][0]["resources"]) == (kept, kept)


def test_claims_in_use_are_kept() -> None:
    """A stored pod that has claims keeps them if the gate is off."""
    pod_spec = spec()
    pod_disabled_fields.drop_spec(pod_spec, spec(), Gates.of(V1_34, {"DynamicResourceAllocation": False}))
    assert pod_spec == spec()
