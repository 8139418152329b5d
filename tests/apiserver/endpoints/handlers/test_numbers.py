"""Numbers in opaque parameters of a DeviceClass, as each kind of body stores them and each kind of patch keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.http import send
from tests.releases import since
from understudy import Server
from understudy.machinery.releases.version import V1_32

CLASSES = "/apis/resource.k8s.io/v1beta1/deviceclasses"
MEDIA = {
    "json": "application/json",
    "yaml": "application/yaml",
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json patch": "application/json-patch+json",
}
# The literal that is sent, and what kube-apiserver 1.32.5 stores of it: as written, through YAML, through an
# unstructured value (apply and strategic patches, and whatever such a patch finds in the object).
NUMBERS = [
    ("9007199254740993", "9007199254740993", "9007199254740993", "9007199254740993"),
    ("-9007199254740993", "-9007199254740993", "-9007199254740993", "-9007199254740993"),
    ("9223372036854775807", "9223372036854775807", "9223372036854775807", "9223372036854775807"),
    ("-9223372036854775808", "-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
    ("9223372036854775808", "9223372036854775808", "9223372036854775808", "9223372036854776000"),
    ("18446744073709551616", "18446744073709551616", "18446744073709552000", "18446744073709552000"),
    ("100000000000000000000000", "100000000000000000000000", "1e+23", "1e+23"),
    ("9007199254740993.0", "9007199254740993.0", "9007199254740992", "9007199254740992"),
    ("1e3", "1e3", "1000", "1000"),
    ("1.0", "1.0", "1", "1"),
    ("1.5", "1.5", "1.5", "1.5"),
]


@pytest.fixture(scope="module", params=since(V1_32), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        yield running


def stored(server: Server, method: str, target: str, form: str, body: str) -> str:
    """Return the number `n` of the answer, in the answer's own spelling."""
    answer = send(server, method, f"{CLASSES}{target}", body.encode(), MEDIA[form])
    assert answer.status in (200, 201), answer.body
    spelling = re.search(rb'"n":([^},]+)', answer.body)
    assert spelling
    return spelling[1].decode()


def spec(literal: str) -> str:
    opaque = f'{{"driver":"d.example.com","parameters":{{"n":{literal}}}}}'
    return f'{{"config":[{{"opaque":{opaque}}}]}}'


def device_class(name: str, literal: str) -> str:
    return (
        f'{{"apiVersion":"resource.k8s.io/v1beta1","kind":"DeviceClass","metadata":{{"name":"{name}"}},'
        f'"spec":{spec(literal)}}}'
    )


@pytest.mark.parametrize(("literal", "written", "yaml", "untyped"), NUMBERS)
def test_bodies_keep_numbers(server: Server, literal: str, written: str, yaml: str, untyped: str) -> None:
    """A body, whether it creates or patches, stores its integers exactly as far as they fit 64 bits."""
    assert stored(server, "POST", "?dryRun=All", "json", device_class("new", literal)) == written
    assert stored(server, "POST", "?dryRun=All", "yaml", device_class("new", literal)) == yaml
    assert stored(server, "PATCH", "/new?dryRun=All&fieldManager=m", "apply", device_class("new", literal)) == untyped
    server.apply(json.loads(device_class("there", "1")))
    assert stored(server, "PUT", "/there?dryRun=All", "json", device_class("there", literal)) == written
    patch = f'{{"spec":{spec(literal)}}}'
    assert stored(server, "PATCH", "/there?dryRun=All", "merge", patch) == written
    assert stored(server, "PATCH", "/there?dryRun=All", "strategic", patch) == untyped
    operation = f'[{{"op":"replace","path":"/spec","value":{spec(literal)}}}]'
    assert stored(server, "PATCH", "/there?dryRun=All", "json patch", operation) == written


@pytest.mark.parametrize(("literal", "written", "yaml", "untyped"), NUMBERS)
def test_patches_keep_stored_numbers(server: Server, literal: str, written: str, yaml: str, untyped: str) -> None:
    """A patch of labels respells the numbers that the object holds, unless it is a merge patch or a JSON patch."""
    name = f"stored-{NUMBERS.index((literal, written, yaml, untyped))}"
    stored(server, "POST", "", "json", device_class(name, literal))
    labels = '{"metadata":{"labels":{"a":"b"}}}'
    assert stored(server, "PATCH", f"/{name}?dryRun=All", "merge", labels) == written
    assert stored(server, "PATCH", f"/{name}?dryRun=All", "strategic", labels) == untyped
    operation = '[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]'
    assert stored(server, "PATCH", f"/{name}?dryRun=All", "json patch", operation) == written
    applied = f'{{"apiVersion":"resource.k8s.io/v1beta1","kind":"DeviceClass",{labels[1:]}'
    assert stored(server, "PATCH", f"/{name}?dryRun=All&fieldManager=m", "apply", applied) == untyped


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("true", "1", False),
        ("0", "false", False),
        ("[1]", "[true]", False),
        ('"1"', "1", False),
        ("1", "1.0", True),
        ("9007199254740993", "9007199254740992.0", False),
        ("9223372036854775807", "9223372036854775808", True),
        ("18446744073709551615", "18446744073709551616", True),
        ("12345678901234567890", "12345678901234567890.0", True),
    ],
)
def test_apply_tells_values_apart(server: Server, before: str, after: str, same: bool) -> None:
    """Apply sees a change, or a conflict, where Go does: true is not 1, and integers beyond 64 bits are floats."""
    for form, method, target in (("apply", "PATCH", "/{}?fieldManager=m"), ("json", "POST", "")):
        name = f"{form}-{uuid4()}"
        created = send(
            server, method, CLASSES + target.format(name), device_class(name, before).encode(), MEDIA[form]
        ).json()
        path = f"{CLASSES}/{name}?fieldManager=m"
        answer = send(server, "PATCH", path, device_class(name, after).encode(), MEDIA["apply"])
        if form == "json":
            assert (answer.status == 200) is same
        else:
            version = answer.json()["metadata"]["resourceVersion"]
            assert (version == created["metadata"]["resourceVersion"]) is same
