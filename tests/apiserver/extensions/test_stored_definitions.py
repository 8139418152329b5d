"""Definitions that no server of today would store: some of the days of v1beta1, and what is no definition at all.

Conditions, schemas and errors are as kube-apiserver 1.37.2 gave them for the same values in its etcd.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

GROUP, PATH = "legacy.example.com", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KEYS = "/registry/apiextensions.k8s.io/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
ACCEPTED = [
    {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
    {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted",
    },
]
LOOSE: Obj = {
    "type": "object",
    "properties": {
        "foo": {},
        "bar": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "properties": {"a": {"type": "string"}},
        },
    },
}
OPEN: Obj = {"type": "object", "properties": {"foo": {"type": "string"}}}
UNFIT: Obj = {"type": "object", "properties": {"foo": {"type": "array", "items": [{"type": "string"}]}}}
KEPT = "spec.preserveUnknownFields: Invalid value: true: must be false"
TYPE = "spec.versions[0].schema.openAPIV3Schema.properties[foo].type: Required value: must not be empty for specified "
BOGUS = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct "
    '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def definition(plural: str, kind: str, schema: Obj, **spec: Any) -> Obj:
    """Return a definition as v1beta1 stored it, whose controllers have not seen it."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "uid": plural, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {
            "group": GROUP,
            "version": "v1",
            "scope": "Namespaced",
            "names": names,
            "validation": {"openAPIV3Schema": schema},
            "versions": [{"name": "v1", "served": True, "storage": True}],
            "conversion": {"strategy": "None"},
            **spec,
        },
        "status": {"acceptedNames": {"plural": "", "kind": ""}, "conditions": None, "storedVersions": ["v1"]},
    }


def stored(folder: Path, **values: Obj | bytes) -> str:
    """Return a storage that holds definitions by their names, or other bytes under these or other keys."""
    file = folder / "objects"
    with Server(storage=f"sqlite:{file}"):
        pass
    with closing(sqlite3.connect(file)) as connection, connection:
        (revision,) = connection.execute("SELECT max(revision) FROM writes").fetchone()
        for name, value in values.items():
            revision += 1
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            key = name if name.startswith("/") else f"{KEYS}/{name}.{GROUP}"
            connection.execute("INSERT INTO writes VALUES (?, ?, ?)", (revision, key, raw))
    return f"sqlite:{file}"


def conditions(server: Server, name: str) -> list[Obj]:
    status = send(server, "GET", f"{PATH}/{name}.{GROUP}").json()["status"]
    return [{k: v for k, v in each.items() if k != "lastTransitionTime"} for each in status.get("conditions") or ()]


@pytest.mark.parametrize(
    ("schema", "condition", "fields"),
    [
        (LOOSE, ("True", "Violations", f"[{KEPT}, {TYPE}object fields]"), set()),
        (OPEN, ("True", "Violations", KEPT), {"apiVersion", "kind", "metadata", "foo"}),
        (
            UNFIT,
            (
                "Unknown",
                "StructuralError",
                "failed to check validation schema for version v1: OpenAPIV3Schema 'items' must be a schema, but is "
                "an array",
            ),
            set(),
        ),
    ],
)
def test_schemas_that_are_not_structural_are_told_of_and_not_published(
    schema: Obj, condition: tuple[str, str, str], fields: set[str], tmp_path: Path
) -> None:
    """A definition that keeps unknown fields has a condition; v3 has its schema if that is structural, v2 never."""
    first = dict(zip(("type", "status", "reason", "message"), ("NonStructuralSchema", *condition), strict=True))
    gvk = [{"group": GROUP, "kind": "Thing", "version": "v1"}]
    with Server(storage=stored(tmp_path, things=definition("things", "Thing", schema))) as server:
        wait_until(lambda: conditions(server, "things") == [first, *ACCEPTED])
        three = send(server, "GET", f"/openapi/v3/apis/{GROUP}/v1").json()["components"]["schemas"]
        two = send(server, "GET", "/openapi/v2").json()["definitions"]
        refused = send(server, "POST", f"/apis/{GROUP}/v1/namespaces/default/things", {**thing("a"), "foo": 5})
    name = "com.example.legacy.v1.Thing"
    assert three[name].get("properties", {}).keys() == fields
    assert two[name] == {"type": "object", "x-kubernetes-group-version-kind": gvk}
    assert refused.status == (201 if schema is LOOSE else 422)


def thing(name: str) -> Obj:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": name}}


def test_value_that_is_no_definition_hinders_only_definitions(tmp_path: Path) -> None:
    """A list of definitions fails; others are established once it is deleted, and are served all the while."""
    open_ = definition("things", "Thing", OPEN, preserveUnknownFields=False)
    with Server(storage=stored(tmp_path, bogus=b"bogus data", things=open_)) as server:
        listed, read = send(server, "GET", PATH), send(server, "GET", f"{PATH}/bogus.{GROUP}")
        assert (listed.status, listed.json()["reason"]) == (500, "StorageReadError")
        assert (read.status, read.json()["reason"]) == (500, "InternalError")
        assert listed.json()["message"].endswith(BOGUS)
        assert read.json()["message"].endswith(BOGUS)
        assert conditions(server, "things") == []
        assert send(server, "DELETE", f"{PATH}/bogus.{GROUP}").json()["reason"] == "InternalError"
        unsafe = {"kind": "DeleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential": True}
        assert send(server, "DELETE", f"{PATH}/bogus.{GROUP}", unsafe).json()["status"] == "Success"
        wait_until(lambda: conditions(server, "things") == ACCEPTED)
        assert send(server, "POST", f"/apis/{GROUP}/v1/namespaces/default/things", thing("a")).status == 201


def test_object_that_cannot_be_read_is_neither_changed_nor_deleted(tmp_path: Path) -> None:
    """Reads, lists and deletions say that the object is corrupt, updates that it cannot be decoded, creates that it is
    there; a watch ends at it."""
    why = "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
    raw = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":5}'
    config_map = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "bogus"}}
    with Server(storage=stored(tmp_path, **{"/registry/configmaps/default/bogus": raw})) as server:
        at = server.state.registry.store.revision
        undecodable = f"object not decodable revision={at}: {why}"
        corrupt = (
            "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: " + undecodable
        )
        one = f"Internal error occurred: {corrupt.format('/configmaps/default/bogus')}"
        key = "/registry/configmaps/default/bogus"
        many = f"failed to read one or more configmaps from the storage: {corrupt.format(key)}"
        answers = [
            (send(server, "GET", f"{MAPS}/bogus"), one),
            (send(server, "DELETE", f"{MAPS}/bogus"), one),
            (send(server, "GET", MAPS), many),
            (send(server, "DELETE", MAPS), many),
            (send(server, "PUT", f"{MAPS}/bogus", config_map), undecodable),
            (send(server, "PATCH", f"{MAPS}/bogus", {"data": {"a": "b"}}), undecodable),
        ]
        assert [(answer.status, answer.json()["message"]) for answer, _ in answers] == [
            (500, text) for _, text in answers
        ]
        assert send(server, "POST", MAPS, config_map).status == 409
        assert send(server, "GET", f"{MAPS}?watch=1&resourceVersion={at - 1}").body == b""
