"""The type checking of ValidatingAdmissionPolicies, with schemas of its own."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.admission.plugins.policy.type_checking import Types, check
from understudy.machinery.releases.version import V1_34, V1_36, Version
from understudy.machinery.types import GroupVersionKind, GroupVersionResource

GEAR = GroupVersionKind("example.com", "v1", "Gear")
NODE: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"allOf": [{"$ref": "#/components/schemas/Node"}]}},
}
SCHEMAS: dict[str, Any] = {
    "Gear": {
        "type": "object",
        "properties": {"node": {"$ref": "#/components/schemas/Node"}, "port": {"format": "int-or-string"}},
        "x-kubernetes-group-version-kind": [GEAR._asdict()],
    },
    "Node": NODE,
}


def warnings(expression: str, release: Version = V1_36, **spec: Any) -> list[str]:
    rule = {"apiGroups": [GEAR.group], "apiVersions": [GEAR.version], "resources": ["gears"]}
    constraints = {"resourceRules": [rule]}
    policy = {"spec": {"validations": [{"expression": expression}], "matchConstraints": constraints, **spec}}

    def kinds(resource: GroupVersionResource) -> list[GroupVersionKind]:
        return [GEAR] if resource == (GEAR.group, GEAR.version, "gears") else []

    types = Types(kinds, lambda group, version: SCHEMAS if (group, version) == GEAR[:2] else {})
    return [warning["warning"] for warning in check(policy, types, release)]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("object.node.name == 'x'", ""),
        ("object.node.name == 1", "'(string, int)'"),
        ("object.node.next.name == 'x'", "undefined field 'name'"),
        ("object.port == 1 || object.port == 'x'", ""),
        ("object.metadata.name == 1", "'(string, int)'"),
    ],
)
def test_types_of_objects(expression: str, text: str) -> None:
    """A schema that refers to itself has no fields where it does; every object has a kind and metadata."""
    texts = warnings(expression)
    assert len(texts) == bool(text)
    assert all(text in warning for warning in texts)


@pytest.mark.parametrize("release", [V1_34, V1_36], ids=str)
def test_parameters_of_unknown_kinds(release: Version) -> None:
    """Parameters of a kind that is not served may have any field; before 1.36 they are said not to exist."""
    texts = warnings("params.x == 1", release, paramKind={"apiVersion": "v1", "kind": "Nothing"})
    assert ["undeclared reference to 'params'" in text for text in texts] == ([True] if release < V1_36 else [])
