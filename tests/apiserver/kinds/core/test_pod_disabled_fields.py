"""Fields of pods that a feature gate guards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.apiserver.kinds.core import pod_disabled_fields
from understudy.machinery.releases.features import Gates

CLAIM = {"name": "c", "resourceClaimName": "x"}


def spec() -> dict[str, Any]:
    resources = {"claims": [{"name": "c"}]}
    return {"resourceClaims": [dict(CLAIM)], "containers": [{"name": "a", "resources": resources}]}


@pytest.mark.parametrize(("on", "kept"), [(True, True), (False, False)])
def test_claims(on: bool, kept: bool) -> None:
    """Without DynamicResourceAllocation claims are dropped, from the containers as well."""
    found = spec()
    pod_disabled_fields.drop_spec(found, None, Gates.of(NEWEST, {"DynamicResourceAllocation": on}))
    assert ("resourceClaims" in found, "claims" in found["containers"][0]["resources"]) == (kept, kept)


def test_claims_in_use() -> None:
    """A stored pod that has claims keeps them when the gate is off."""
    found = spec()
    pod_disabled_fields.drop_spec(found, spec(), Gates.of(NEWEST, {"DynamicResourceAllocation": False}))
    assert found == spec()
