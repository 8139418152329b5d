"""The order of fields in responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.typeinfo.go_types import Schemas, Struct

POD = Schemas.of(NEWEST).kind("", "v1", "Pod")


def paths(value: Any) -> list[str]:
    """Return the paths of all fields in their order, parents first."""
    if isinstance(value, dict):
        return [path for name, item in value.items() for path in (name, *(f"{name}.{below}" for below in paths(item)))]
    return [path for item in value for path in paths(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"spec": {}, "metadata": {}, "kind": "Pod"}, ["kind", "metadata", "spec"]),
        ({"spec": {"hostname": "h", "containers": None}}, ["spec", "spec.containers", "spec.hostname"]),
        (
            {"spec": {"containers": [{"image": "i", "name": "c"}]}},
            ["spec", "spec.containers", "spec.containers.name", "spec.containers.image"],
        ),
        (
            {"metadata": {"labels": {"b": "1", "a": "2"}, "name": "p"}},
            ["metadata", "metadata.name", "metadata.labels", "metadata.labels.a", "metadata.labels.b"],
        ),
    ],
)
def test_fields_follow_their_type(obj: Any, expected: list[str]) -> None:
    """Fields stand in the order of their type and keys of maps are sorted; the object is not changed."""
    before = paths(obj)
    result = in_field_order(obj, POD)
    assert (paths(result), result, paths(obj)) == (expected, obj, before)


def test_ordered_object_is_not_copied() -> None:
    """An object whose fields are in order is returned itself."""
    obj = {"metadata": {"name": "p", "labels": {"a": "1", "b": "2"}}, "spec": {"containers": [{"name": "c"}]}}
    assert in_field_order(obj, POD) is obj


def test_recursive_types_are_ordered_at_every_depth() -> None:
    """A type that contains itself is ordered at every depth."""
    schema: Struct = Schemas.of(NEWEST).kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    inner = {"properties": {"b": {"type": "object", "description": "d"}}, "type": "object"}
    versions = [{"schema": {"openAPIV3Schema": inner}, "name": "v1"}]
    result = in_field_order({"spec": {"versions": versions}}, schema)
    below = "spec.versions.schema.openAPIV3Schema"
    expected = ["type", "properties", "properties.b", "properties.b.description", "properties.b.type"]
    assert [path.removeprefix(f"{below}.") for path in paths(result) if path.startswith(f"{below}.")] == expected


def test_defaults_stand_in_order(apiserver: Server) -> None:
    """Fields that the server sets stand where the real server writes them."""
    apiserver.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"image": "i", "name": "c"}]},
        }
    )
    spec = send(apiserver, "GET", "/api/v1/namespaces/default/pods/p").json()["spec"]
    first, *_, last = spec
    assert (first, last) == ("containers", "preemptionPolicy")
    assert [name for name in spec if name in ("enableServiceLinks", "restartPolicy", "tolerations")] == [
        "restartPolicy",
        "tolerations",
        "enableServiceLinks",
    ]
