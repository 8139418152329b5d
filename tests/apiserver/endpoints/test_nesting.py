"""Bodies and stored objects that nest as deep as kube-apiserver takes them: 10,000 levels."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.http import MERGE_PATCH, send
from understudy import Server

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH, STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"
YAML, APPLY = "application/yaml", "application/apply-patch+yaml"
LEVELS = 9_998  # that fit below a field of a value in a list
# Of schemas. Python 3.12 alone limits how often C calls Python in C, and answers 400 sooner.
SCHEMA_LEVELS = (300,) if sys.version_info[:2] == (3, 12) else (300, 600)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a server with one ConfigMap, `patched`."""
    with Server() as running:
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}})
        yield running


def nested(levels: int, shape: str) -> str:
    """Return JSON of objects or arrays in one another."""
    return '{"a":' * levels + "1" + "}" * levels if shape == "objects" else "[" * levels + "]" * levels


def config_map(name: str, value: str) -> str:
    """Return a ConfigMap with a field that ConfigMaps do not have."""
    return f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"x":{value}}}'


@pytest.mark.parametrize("shape", ["objects", "arrays"])
@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "status"),
    [
        ("POST", "?dryRun=All&", "application/json", config_map("new", "VALUE"), 201),
        ("PUT", "/patched?", "application/json", config_map("patched", "VALUE"), 200),
        ("PATCH", "/patched?", MERGE_PATCH, '{"x":VALUE}', 200),
        ("PATCH", "/patched?", STRATEGIC, '{"x":VALUE}', 200),
        ("PATCH", "/patched?", JSON_PATCH, '[{"op":"add","path":"/x","value":VALUE}]', 200),
        pytest.param("POST", "?dryRun=All&", YAML, config_map("new", "VALUE"), 201, marks=pytest.mark.maintenance),
        pytest.param(
            *("PATCH", "/patched?fieldManager=m&", APPLY, config_map("patched", "VALUE"), 500),
            marks=pytest.mark.maintenance,
        ),
    ],
)
def test_unknown_fields_nest(
    server: Server, method: str, path: str, content_type: str, body: str, status: int, shape: str
) -> None:
    """Unknown fields nest to 10,000 levels; apply, which knows no unknown fields, says just that. One more is 400."""
    path = f"{CONFIG_MAPS}{path}fieldValidation=Ignore"
    response = send(server, method, path, body.replace("VALUE", nested(LEVELS, shape)).encode(), content_type)
    assert response.status == status, response.body[:500]
    if status == 500:
        assert response.json()["message"].endswith(".x: field not declared in schema")
    response = send(server, method, path, body.replace("VALUE", nested(10_001, shape)).encode(), content_type)
    assert response.status == 400
    is_patch = content_type in {MERGE_PATCH, STRATEGIC, JSON_PATCH}
    assert ("invalid JSON patch" if is_patch else "exceeded max depth") in response.json()["message"]


@pytest.mark.parametrize("shape", [pytest.param("objects", marks=pytest.mark.maintenance), "arrays"])
def test_stored_values_nest(server: Server, shape: str) -> None:
    """A stored value that nests is read in every form, patched, applied to and deleted."""
    head = '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"c"},'
    created = f'{head}"data":{{"deep":{nested(LEVELS, shape)}}},"revision":1}}'.encode()
    assert send(server, "POST", REVISIONS, created).status == 201
    for accept in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        assert send(server, "GET", f"{REVISIONS}/c", accept=accept).status == 200, accept
        assert send(server, "GET", REVISIONS, accept=accept).status == 200, accept
    assert send(server, "GET", f"{REVISIONS}/c?pretty=1").body.count(b"\n") > LEVELS
    for number, content_type in enumerate((MERGE_PATCH, STRATEGIC), 2):
        response = send(server, "PATCH", f"{REVISIONS}/c", {"revision": number}, content_type)
        assert (response.status, nested(LEVELS, shape).encode() in response.body) == (200, True)
    applied = f'{head}"revision":3}}'.encode()
    assert send(server, "PATCH", f"{REVISIONS}/c?fieldManager=m", applied, APPLY).status == 200
    assert send(server, "DELETE", f"{REVISIONS}/c").status == 200


@pytest.mark.parametrize("levels", SCHEMA_LEVELS)
def test_schemas_nest(server: Server, levels: int) -> None:
    """The schema of a definition nests; the definition is established, read, labelled and deleted."""
    name = f"xs.of{levels}.example.com"
    schema = '{"type":"object","properties":{"a":' * levels + '{"type":"object"}' + "}}" * levels
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": f"of{levels}.example.com",
            "names": {"kind": "X", "plural": "xs"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": "SCHEMA"}}],
        },
    }
    body = json.dumps(definition).replace('"SCHEMA"', schema).encode()
    assert send(server, "POST", DEFINITIONS, body).status == 201
    assert send(server, "PATCH", f"{DEFINITIONS}/{name}", {"metadata": {"labels": {"a": "b"}}}).status == 200
    for accept in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        assert send(server, "GET", f"{DEFINITIONS}/{name}", accept=accept).status == 200, accept
    assert send(server, "DELETE", f"{DEFINITIONS}/{name}").status == 200
