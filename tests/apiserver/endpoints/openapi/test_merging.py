"""Documents of aggregated servers are merged as kube-aggregator merges them; recorded exchanges show the rest."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.endpoints.openapi.gnostic import encode
from understudy.apiserver.endpoints.openapi.merging.merge import below, merge
from understudy.apiserver.endpoints.openapi.merging.specs import AggregatedSpec, with_v2
from understudy.apiserver.endpoints.openapi.merging.swagger_types import as_read
from understudy.machinery.releases.version import V1_32, V1_37

GVK = "x-kubernetes-group-version-kind"
KINDS = [{"group": "b", "version": "v1", "kind": "K"}, {"group": "a", "version": "v1", "kind": "K"}]


def document(paths: dict[str, str], **definitions: Any) -> dict[str, Any]:
    """Return a document whose paths refer to definitions."""
    items = {path: {"get": {"responses": {"200": {"schema": ref(name)}}}} for path, name in paths.items()}
    return {"paths": items, "definitions": definitions, "parameters": {}}


def ref(name: str) -> dict[str, str]:
    """Return a reference to a definition."""
    return {"$ref": f"#/definitions/{name}"}


def test_known_paths_stay_and_need_no_definitions() -> None:
    """A path that is known is not replaced; definitions that only it uses in the other document are not added."""
    merged = document({"/a": "A"}, A={"type": "object"})
    merge(merged, document({"/a": "B", "/b": "C"}, B={"type": "object"}, C={"type": "string"}), V1_37)
    assert merged == document({"/a": "A", "/b": "C"}, A={"type": "object"}, C={"type": "string"})
    merge(merged, document({"/a": "D"}, D={"type": "object"}), V1_37)
    assert "D" not in merged["definitions"]


def test_names_of_other_definitions_are_numbered() -> None:
    """A definition gets the first number that is free in both documents, or has the same under it already."""
    merged = document({"/a": "A"}, A={"title": "1"}, A_v2={"title": "2"})
    merge(merged, document({"/b": "A"}, A={"title": "3"}, A_v3={"title": "mine"}), V1_37)
    assert merged["definitions"]["A_v4"] == {"title": "3"}
    assert merged["paths"]["/b"]["get"]["responses"]["200"]["schema"] == ref("A_v4")
    merge(merged, document({"/c": "A"}, A={"title": "2", "description": "else"}), V1_37)
    assert merged["paths"]["/c"]["get"]["responses"]["200"]["schema"] == ref("A_v2")


def test_kinds_of_shared_definitions_are_joined() -> None:
    """A definition that two documents have is of the kinds of both, sorted."""
    merged = document({"/a": "A"}, A={"type": "object", GVK: KINDS[:1]})
    merge(merged, document({"/b": "A"}, A={"type": "object", GVK: KINDS}), V1_37)
    assert merged["definitions"] == {"A": {"type": "object", GVK: KINDS[::-1]}}


def test_definitions_of_parameters_count_from_1_34_on() -> None:
    """A definition that only a shared parameter of another group needs stays in older releases."""
    whole = document({"/apis/g/v1/a": "A"}, A={}, Options={})
    whole["parameters"] = {"body": {"schema": ref("Options")}}
    whole["paths"]["/apis/other/v1/b"] = {"parameters": [{"$ref": "#/parameters/body"}]}
    assert [below(whole, "/apis/g/v1/", version)["definitions"].keys() for version in (V1_32, V1_37)] == [
        {"A", "Options"},
        {"A"},
    ]


@pytest.mark.parametrize("content", [None, [], {"paths": 1}, {"paths": {"/a": []}}, {"definitions": {"A": 1}}])
def test_documents_of_another_form_are_refused(content: Any) -> None:
    """A document that Go could not read is an error, whatever it is."""
    with pytest.raises(ValueError, match="no OpenAPI document"):
        as_read(content)


def test_groups_are_merged_by_priority() -> None:
    """Higher groups come first, whichever of their versions has the priority; versions by name."""
    groups = {"v2.a": ("a", 1), "v1.a": ("a", 3), "v1.b": ("b", 2), "v1.c": ("c", 9)}
    specs = {name: AggregatedSpec(name, group, priority, v2=b"{}") for name, (group, priority) in groups.items()}
    specs["v1.c"] = specs["v1.c"]._replace(v2=b"")
    assert [spec.path for spec in with_v2(specs)] == ["v1.a", "v2.a", "v1.b"]


def test_protobuf_has_what_documents_of_other_servers_have() -> None:
    """Fields that no document of this server has are written as gnostic writes them; unknown ones are left out."""
    parameter = {"in": "header", "name": "h", "type": "array", "items": {"type": "string"}, "maximum": 1}
    answers = {"200": {"$ref": "#/responses/r"}, "201": {"description": "D", "headers": {"X": {"type": "string"}}}}
    operation = {"summary": "S", "deprecated": True, "parameters": [parameter], "responses": answers}
    shape = {"additionalProperties": True, "items": [{}], "type": ["a", "b"], "oneOf": [{}], "readOnly": True}
    info, paths = {"title": "t", "version": "v"}, {"/a": {"get": operation}}
    written = encode({"swagger": "2.0", "info": info, "paths": paths, "definitions": {"A": shape}})
    assert written.hex() == (
        "0a03322e3012060a0174120176427712750a022f61126f126d120153422b0a2912270a2512066865616465722201682a0561"
        "727261793a080a06737472696e6751000000000000f03f4a390a180a033230301211120f0a0d232f726573706f6e7365732f"
        "720a1d0a0332303112160a140a01441a0f0a0d0a015812080a06737472696e6758014a1d0a1b0a01411216aa01021001b201"
        "060a01610a0162ba01020a00d80101"
    )
