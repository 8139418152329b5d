"""The default classes of volume claims and ingresses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.context import Context
from understudy.admission.plugins import default_class
from understudy.machinery.releases.features import Gates

Obj = dict[str, Any]
STORAGE, OLD_STORAGE = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
INGRESS = "ingressclass.kubernetes.io/is-default-class"


def class_(name: str, second: int, mark: str = "", value: str = "true") -> Obj:
    time = f"2026-01-01T00:00:0{second}Z"
    return {"metadata": {"name": name, "creationTimestamp": time, "annotations": {mark: value} if mark else {}}}


def context(*classes: Obj) -> Context:
    return Context(NEWEST, Gates.of(NEWEST), "v1", listing=lambda group, resource, namespace: classes)


def claim(**spec: Any) -> Obj:
    return {"metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([], None),
        ([class_("a", 1)], None),
        ([class_("a", 1, STORAGE, "false")], None),
        ([class_("a", 1, STORAGE), class_("b", 2, OLD_STORAGE), class_("c", 3)], "b"),
        ([class_("a", 1, STORAGE), class_("b", 1, STORAGE)], "a"),
    ],
)
def test_the_newest_default_storage_class(classes: list[Obj], chosen: str | None) -> None:
    """A claim without a class gets the newest of those marked as default, the first by name if several are."""
    found = claim()
    default_class.of_claim(found, context(*classes))
    assert found["spec"].get("storageClassName") == chosen


@pytest.mark.parametrize(
    ("obj", "kept"),
    [
        (claim(storageClassName=""), ""),
        (claim(storageClassName="mine"), "mine"),
        ({**claim(), "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}}, None),
    ],
)
def test_a_class_that_was_chosen_stays(obj: Obj, kept: str | None) -> None:
    """The empty class is a choice, too; so is the annotation of old."""
    default_class.of_claim(obj, context(class_("a", 1, STORAGE)))
    assert obj["spec"].get("storageClassName") == kept


@pytest.mark.parametrize(
    ("annotations", "spec", "chosen"),
    [({}, {}, "b"), ({"kubernetes.io/ingress.class": "x"}, {}, None), ({}, {"ingressClassName": "mine"}, "mine")],
)
def test_the_default_ingress_class(annotations: Obj, spec: Obj, chosen: str | None) -> None:
    """Ingresses that name no class, by field or annotation, get the newest default."""
    found = {"metadata": {"annotations": annotations}, "spec": dict(spec)}
    default_class.of_ingress(found, context(class_("a", 1, INGRESS), class_("b", 2, INGRESS)))
    assert found["spec"].get("ingressClassName") == chosen
