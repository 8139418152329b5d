"""Validation of metadata, the same for every kind, on create and on update."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.common import objectmeta
from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.validation.field import FieldError

STORED = {
    "name": "a",
    "namespace": "n",
    "uid": "u",
    "resourceVersion": "1",
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "generation": 2,
}
EVENT = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text(V1_32) for error in errors]


def create_errors(**fields: Any) -> list[str]:
    return texts(objectmeta.validate({**STORED, **fields}, namespaced=True))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"generateName": "A"}, 'metadata.generateName: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b": must not contain dots'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        ({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-": a valid label must be an empty string'),
        ({"annotations": {"a b": ""}}, 'metadata.annotations: Invalid value: "a b": name part must consist'),
        ({"annotations": {"a": "x" * 2**18}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": [""]}, 'metadata.finalizers: Invalid value: "": name part must be non-empty'),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: []string{"orphan", "foregroundDeletion"}: '
            "finalizer orphan and foregroundDeletion cannot be both set",
        ),
        (
            {"ownerReferences": [EVENT]},
            'metadata.ownerReferences: Invalid value: v1.OwnerReference{APIVersion:"v1", Kind:"Event", Name:"e", '
            'UID:"u", Controller:(*bool)(nil), BlockOwnerDeletion:(*bool)(nil)}: '
            "/v1, Kind=Event is disallowed from being an owner",
        ),
        ({"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]}, "metadata.ownerReferences.apiVersion: Invalid value"),
        ({"ownerReferences": [OWNER, OWNER]}, "metadata.ownerReferences: Invalid value: []v1.OwnerReference{"),
        ({"managedFields": [{"operation": "Update", "manager": "a\n"}]}, "metadata.managedFields[0].manager: Invalid"),
        ({"managedFields": [{"operation": "Up"}]}, 'metadata.managedFields[0].operation: Invalid value: "Up": must be'),
        (
            {"managedFields": [{"operation": "Apply", "fieldsType": "x"}]},
            'metadata.managedFields[0].fieldsType: Invalid value: "x": must be `FieldsV1`',
        ),
    ],
)
def test_invalid_metadata_is_refused_on_create(fields: dict[str, Any], error: str) -> None:
    assert create_errors(**fields)[0].startswith(error)


def test_unusual_metadata_is_accepted() -> None:
    """Annotation keys in upper case, repeated finalizers and owners, and empty values are valid."""
    assert create_errors(annotations={"Example.COM/Key": "é"}, finalizers=["a/b", "a/b"], labels={"a": ""}) == []
    owner = {**OWNER, "controller": False}
    assert create_errors(ownerReferences=[owner, owner], managedFields=[{"operation": "Update"}]) == []


def test_cluster_scoped_object_has_no_namespace() -> None:
    errors = objectmeta.validate(STORED, namespaced=False)
    assert texts(errors) == ["metadata.namespace: Forbidden: not allowed on this type"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"resourceVersion": ""}, 'metadata.resourceVersion: Invalid value: "": must be specified for an update'),
        ({"generation": 1}, "metadata.generation: Invalid value: 1: must not be decremented"),
        ({"uid": "v"}, 'metadata.uid: Invalid value: "v": field is immutable'),
        (
            {"deletionTimestamp": "2026-01-02T03:04:05Z"},
            "metadata.deletionTimestamp: Invalid value: 2026-01-02 03:04:05 +0000 UTC: field is immutable",
        ),
        (
            {"deletionGracePeriodSeconds": 0},
            "metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable",
        ),
        ({"labels": {"a": "-"}}, 'metadata.labels: Invalid value: "-"'),
    ],
)
def test_invalid_metadata_is_refused_on_update(fields: dict[str, Any], error: str) -> None:
    assert texts(objectmeta.validate_update({**STORED, **fields}, STORED))[0].startswith(error)


def test_finalizer_cannot_be_added_during_deletion() -> None:
    old = {**STORED, "deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a/b", "a/c"]}
    new = {**old, "finalizers": ["a/b", "a/z", "a/d"]}
    assert texts(objectmeta.validate_update(new, old)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a/d", "a/z"}'
    ]


@pytest.mark.parametrize(("release", "text"), [(V1_31, "must have at most"), (V1_32, "may not be more than")])
def test_length_message_depends_on_release(release: Version, text: str) -> None:
    errors = objectmeta.annotation_errors({"a": "x" * 2**18}, objectmeta.METADATA)
    assert [error.text(release) for error in errors] == [f"metadata: Too long: {text} 262144 bytes"]


def test_finalizer_without_domain_is_a_standard_one() -> None:
    names = ["kubernetes", "orphan", "foregroundDeletion", "a/b", "mine"]
    assert texts(objectmeta.finalizer_names({"finalizers": names})) == [
        'metadata.finalizers[4]: Invalid value: "mine": '
        "name is neither a standard finalizer name nor is it fully qualified"
    ]


def test_template_has_labels_and_annotations_only() -> None:
    fields = {"labels": {"a": "b"}, "uid": "u", "deletionGracePeriodSeconds": 0, "creationTimestamp": None}
    path = objectmeta.METADATA
    assert texts(objectmeta.validate_template(fields, path)) == [
        "metadata.uID: Forbidden: cannot be set",
        "metadata.deletionGracePeriodSeconds: Forbidden: cannot be set",
    ]
