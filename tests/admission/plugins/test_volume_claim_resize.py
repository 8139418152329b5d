"""Which volume claims may grow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.context import Context
from understudy.admission.plugins import volume_claim_resize
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates

Obj = dict[str, Any]


def context(allowed: bool | None) -> Context:
    """A cluster with one class, "gold"."""

    def lookup(group: str, resource: str, namespace: str, name: str) -> Obj | None:
        return {"allowVolumeExpansion": allowed} if name == "gold" else None

    return Context(NEWEST, Gates.of(NEWEST), "v1", lookup=lookup)


def claim(class_: str, size: str) -> Obj:
    spec = {"storageClassName": class_, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("allowed", "class_", "size"), [(True, "gold", "2Gi"), (False, "gold", "1Gi"), (None, "", "1Gi")]
)
def test_claims_that_may_change(allowed: bool | None, class_: str, size: str) -> None:
    """Those that do not grow, and those of a class that allows its volumes to be expanded."""
    volume_claim_resize.check(claim(class_, size), claim(class_, "1Gi"), context(allowed))


@pytest.mark.parametrize(("allowed", "class_"), [(False, "gold"), (None, "gold"), (True, ""), (True, "lead")])
def test_claims_that_may_not_grow(allowed: bool | None, class_: str) -> None:
    """Those without a class, and those of a class that does not say that they may."""
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        volume_claim_resize.check(claim(class_, "2Gi"), claim(class_, "1Gi"), context(allowed))


def test_another_class() -> None:
    """A claim that changes its class does not grow."""
    with pytest.raises(StatusError):
        volume_claim_resize.check(claim("gold", "2Gi"), claim("", "1Gi"), context(True))
