"""Descriptions in OpenAPI documents: which types and fields have one, and where it comes from."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import resources
from typing import Any

import pytest

from tests.releases import NEWEST, RELEASES, every_release, served
from understudy.apiserver.endpoints.openapi import v2
from understudy.apiserver.endpoints.openapi.descriptions import described, package_and_type
from understudy.apiserver.endpoints.openapi.v3 import OpenAPI
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

FOLDER = resources.files("understudy.schemas") / "descriptions"
FILES = {path.name: path.read_text() for path in FOLDER.iterdir()}
# {package: {type: {field: text}}}
OWN: dict[str, Any] = {
    package: types
    for name, content in FILES.items()
    if name != "common.json"
    for package, types in json.loads(content).items()
}


def recorded(release: Version) -> dict[str, Obj]:
    """Return {document: {type: schema}} of a release, as recorded from the real server without descriptions."""
    folder = resources.files("understudy.schemas") / str(release) / "openapi"
    return {path.name: json.loads(path.read_text())["components"]["schemas"] for path in folder.iterdir()}


RECORDED = {release: recorded(release) for release in RELEASES}
# {release: {type: schema}}, as they are served.
SCHEMAS = {
    release: {name: described(name, schema) for types in documents.values() for name, schema in types.items()}
    for release, documents in RECORDED.items()
}


def undescribed(schemas: Obj) -> Counter[str]:
    """Return {package: number of types and fields without a description}."""
    counts: Counter[str] = Counter()
    for name, schema in schemas.items():
        shapes = [schema, *schema.get("properties", {}).values()]
        counts[package_and_type(name)[0]] += sum(not shape.get("description") for shape in shapes)
    return counts


@every_release
def test_every_field_has_a_description(release: Version) -> None:
    """Every type and field has a description, in each version and release."""
    assert +undescribed(SCHEMAS[release]) == Counter()


def test_descriptions_belong_to_fields() -> None:
    """Every description is that of a field that some release has."""
    fields = {
        (*package_and_type(name), field)
        for known in SCHEMAS.values()
        for name, schema in known.items()
        for field in ("", *schema.get("properties", {}))
    }
    stated = {
        (package, plain, field)
        for package, types in OWN.items()
        for plain, texts in types.items()
        for field in texts.keys() - {"like"}
    }
    assert stated - fields == set()


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_are_sorted(name: str) -> None:
    """Files are as `python -m scripts.record descriptions --tidy` leaves them."""
    content = json.loads(FILES[name])
    assert FILES[name] == json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@every_release
def test_descriptions_are_sentences(release: Version) -> None:
    """Each description is one paragraph of whole sentences, without blanks that the reader would see."""
    for name, schema in SCHEMAS[release].items():
        for field, shape in {"": schema, **schema.get("properties", {})}.items():
            text = shape.get("description", "A text.")
            assert re.fullmatch(r"[A-Z`0-9](\S| (?! ))*(\.|#[a-z-]+)", text), (name, field, text)


def test_own_description_replaces_common_one() -> None:
    """A field has the description of its own type, else one that is common to such types; its schema stays."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "string"}, "status": {}, "metadata": {}, "extra": {}},
        "x-kubernetes-group-version-kind": [{"group": "resource.k8s.io", "kind": "ResourceClaim", "version": "v9"}],
    }
    shown = described("io.k8s.api.resource.v9.ResourceClaim", schema)
    own = OWN["io.k8s.api.resource"]["ResourceClaim"]
    assert shown["description"] == own[""]
    assert shown["properties"]["spec"] == {"description": own["spec"], "type": "string"}
    assert shown["properties"]["metadata"]["description"].startswith("Standard object's metadata.")
    assert shown["properties"]["extra"] == {}


def test_types_that_are_like_others() -> None:
    """A type that is like another has the other's descriptions of those fields that it does not describe itself."""
    own = OWN["io.k8s.api.core"]
    assert own["EphemeralContainer"]["like"] == "Container"
    shown = SCHEMAS[NEWEST]["io.k8s.api.core.v1.EphemeralContainer"]
    texts = {field: shape["description"] for field, shape in shown["properties"].items()}
    assert (shown["description"], texts["ports"]) == (
        own["EphemeralContainer"][""],
        "Not allowed for ephemeral containers.",
    )
    assert texts["workingDir"] == own["Container"]["workingDir"]
    assert "like" not in texts


def test_likeness_saves_words() -> None:
    """A type is like one that speaks for itself, and does not repeat what that one says."""
    for types in OWN.values():
        for plain, texts in types.items():
            other = types[texts["like"]] if "like" in texts else {}
            assert "like" not in other, plain
            assert {field for field, text in texts.items() if other.get(field) == text} == set(), plain


def test_custom_types_have_only_common_descriptions() -> None:
    """Custom resources get descriptions of apiVersion, kind and metadata only; others come from their definition."""
    schema = {
        "properties": {"apiVersion": {}, "kind": {"description": "Mine."}, "metadata": {}, "spec": {}, "items": {}},
        "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Gear", "version": "v1"}],
    }
    shown = described("com.example.v1.Gear", schema)
    assert "description" not in shown
    assert shown["properties"]["kind"] == {"description": "Mine."}
    assert {name for name, shape in shown["properties"].items() if shape} == {"apiVersion", "kind", "metadata"}


def without_descriptions(schema: Obj) -> Obj:
    """Return a schema without the descriptions of its type and fields."""
    out = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in schema:
        fields = schema["properties"].items()
        out["properties"] = {name: {k: v for k, v in shape.items() if k != "description"} for name, shape in fields}
    return out


@every_release
def test_descriptions_change_nothing_else(release: Version) -> None:
    """Schemas of documents are those recorded from the real server, but for descriptions."""
    documents = OpenAPI(Serving(served(release)))
    list_of_groups = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList"
    of_groups = {key: schema for key, schema in RECORDED[release]["apis.json"].items() if key != list_of_groups}
    compared = 0
    for name in documents.hashes:
        shown = documents.document(name).get("components", {}).get("schemas", {})
        if shown:
            bare = {key: without_descriptions(schema) for key, schema in shown.items()}
            expected = RECORDED[release].get(name.replace("/", "__") + ".json") or of_groups
            assert bare == expected, name
            compared += 1
    assert compared > 20


def test_v2_has_the_same_descriptions() -> None:
    """The v2 document describes types and fields as v3 does."""
    documents = OpenAPI(Serving(served(NEWEST)))
    definitions = v2.swagger(NEWEST, (documents.document(name) for name in documents.hashes))["definitions"]
    claim = definitions["io.k8s.api.resource.v1.ResourceClaim"]
    own = OWN["io.k8s.api.resource"]["ResourceClaim"]
    assert (claim["description"], claim["properties"]["spec"]["description"]) == (own[""], own["spec"])
