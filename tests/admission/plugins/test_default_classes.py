"""The default storage class of volume claims and the default class of ingresses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.asking import ask
from tests.releases import NEWEST
from understudy.admission.plugins.default_classes import DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS
from understudy.kinds.context import Context
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

STORAGE, OLD_STORAGE = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
CLAIMS, INGRESSES = ("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")
INGRESS = "ingressclass.kubernetes.io/is-default-class"


def class_(name: str, second: int, mark: str = "", value: str = "true") -> Obj:
    time = f"2026-01-01T00:00:0{second}Z"
    return {"metadata": {"name": name, "creationTimestamp": time, "annotations": {mark: value} if mark else {}}}


def context(*classes: Obj) -> Context:
    return Context(NEWEST, Gates.of(NEWEST), "v1", listing=lambda group, resource, namespace: classes)


def claim(**spec: Any) -> Obj:
    return {"metadata": {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], None),
        ([class_("a", 1)], None),
        ([class_("a", 1, STORAGE, "false")], None),
        ([class_("a", 1, STORAGE), class_("b", 2, OLD_STORAGE), class_("c", 3)], "b"),
        ([class_("a", 1, STORAGE), class_("b", 1, STORAGE)], "a"),
    ],
)
def test_claim_without_class_gets_newest_default(classes: list[Obj], expected: str | None) -> None:
    """A claim without a class gets the newest of the default classes, the first by name if several are equally new."""
    obj = ask(DEFAULT_STORAGE_CLASS, CLAIMS, claim(), context(*classes))
    assert obj["spec"].get("storageClassName") == expected


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (claim(storageClassName=""), ""),
        (claim(storageClassName="mine"), "mine"),
        ({**claim(), "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}}, None),
    ],
)
def test_chosen_class_is_kept(obj: Obj, expected: str | None) -> None:
    """An empty class is a choice, too, and so is a class in the old annotation."""
    ask(DEFAULT_STORAGE_CLASS, CLAIMS, obj, context(class_("a", 1, STORAGE)))
    assert obj["spec"].get("storageClassName") == expected


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [({}, {}, "b"), ({"kubernetes.io/ingress.class": "x"}, {}, None), ({}, {"ingressClassName": "mine"}, "mine")],
)
def test_ingress_without_class_gets_newest_default(annotations: Obj, spec: Obj, expected: str | None) -> None:
    """An ingress that names no class, by field or annotation, gets the newest default class."""
    obj = {"metadata": {"annotations": annotations}, "spec": dict(spec)}
    ask(DEFAULT_INGRESS_CLASS, INGRESSES, obj, context(class_("a", 1, INGRESS), class_("b", 2, INGRESS)))
    assert obj["spec"].get("ingressClassName") == expected
