"""The PersistentVolumeClaimResize plugin: which claims may grow."""

from __future__ import annotations

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy.admission.plugins.storage.persistent_volume_claim_resize import PersistentVolumeClaimResize
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj


def context(allowed: bool | None) -> Context:
    """Return the context of a cluster with one storage class, "gold"."""

    def lookup(group: str, resource: str, namespace: str, name: str) -> Obj | None:
        return {"allowVolumeExpansion": allowed} if name == "gold" else None

    return Context(NEWEST, Gates.of(NEWEST), "v1", lookup=lookup)


def claim(class_: str, size: str) -> Obj:
    spec = {"storageClassName": class_, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c"}, "spec": spec}


def check(obj: Obj, old: Obj, ctx: Context) -> None:
    ask(PersistentVolumeClaimResize(), ("", "persistentvolumeclaims"), obj, ctx, old=old)


@pytest.mark.parametrize(
    ("allowed", "class_", "size"), [(True, "gold", "2Gi"), (False, "gold", "1Gi"), (None, "", "1Gi")]
)
def test_claim_may_grow_if_class_allows_expansion(allowed: bool | None, class_: str, size: str) -> None:
    """A claim may change if it does not grow, or if its class allows volumes to be expanded."""
    check(claim(class_, size), claim(class_, "1Gi"), context(allowed))


@pytest.mark.parametrize(("allowed", "class_"), [(False, "gold"), (None, "gold"), (True, ""), (True, "lead")])
def test_claim_cannot_grow_without_expandable_class(allowed: bool | None, class_: str) -> None:
    """A claim cannot grow without a class, or with one that does not allow its volumes to be expanded."""
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        check(claim(class_, "2Gi"), claim(class_, "1Gi"), context(allowed))


def test_claim_cannot_change_class_and_grow() -> None:
    """A claim that gets its class in the same update cannot grow."""
    with pytest.raises(StatusError):
        check(claim("gold", "2Gi"), claim("", "1Gi"), context(True))
