"""Numbers in the defaults of definitions: floats or integers as they are written, until they are stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from understudy import Server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GEARS = "/apis/example.com/v1/gears"
RULE = '"x-kubernetes-validations":[{"rule":"self > 0"}]'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.36") as running:
        yield running


def definition(schema: str) -> bytes:
    text = """{"metadata": {"name": "gears.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "gears", "kind": "Gear"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"p": SCHEMA}}}}]}}"""
    return text.replace("SCHEMA", schema).encode()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('{"type":"integer","default":1000.0}', ""),
        ('{"type":"integer","default":1e15}', ""),
        ('{"type":"integer","default":1e16}', 'Invalid value: "number":  in body must be of type integer: "number"'),
        ('{"type":"integer","default":10000000000000000}', ""),
        ('{"type":"string","default":1.0}', 'in body must be of type string: "number"'),
        ('{"type":"string","default":1}', 'in body must be of type string: "integer"'),
        (f'{{"type":"integer","default":1.0,{RULE}}}', '"integer": invalid data, expected int, got float64 evaluatin'),
        (f'{{"type":"integer","default":1,{RULE}}}', ""),
        ('{"type":"integer","default":1000,"enum":[1e3]}', ""),
        ('{"type":"integer","default":1e3,"enum":[1000]}', ""),
        ('{"type":"number","default":1e400}', "json: cannot unmarshal number 1e400 into Go value of type float64"),
    ],
)  # fmt: skip
def test_defaults_count_as_they_are_written(server: Server, schema: str, message: str) -> None:
    """A whole number that is written with a fraction or an exponent is a float when a definition is validated."""
    answer = send(server, "POST", f"{DEFINITIONS}?dryRun=All", definition(schema))
    assert (answer.status < 400, message in answer.json().get("message", "")) == (not message, True), answer.json()


def test_defaults_are_stored_as_integers(server: Server) -> None:
    """A stored definition has integers for whole numbers, whose rules hold, and no negative zero."""
    schema = '{"type":"array","items":{"type":"number"},"default":[1.0,1e3,-0.0,1e21,0.5]}'
    numbers = b'"default":[1,1000,0,1e+21,0.5]'
    assert numbers in send(server, "POST", DEFINITIONS, definition(schema)).body
    assert numbers in send(server, "GET", f"{DEFINITIONS}/gears.example.com").body
    gear = b'{"apiVersion":"example.com/v1","kind":"Gear","metadata":{"name":"a"}}'
    assert b'"p":[1,1000,0,1e+21,0.5]' in send(server, "POST", GEARS, gear).body
    named = gear.replace(b'"a"}', b'"b"},"p":[-0.0]')
    assert b'"p":[0]' in send(server, "POST", GEARS, named).body
