"""The story of what OpenAPI says of aggregated API servers, for `compare aggregation`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.aggregated_server import GROUP, PATH, RESOURCES
from scripts.compare.cases.aggregation_discovery import service
from scripts.compare.cases.aggregation_steps import API_SERVICES, DEFINITIONS, SERVICES, Ask, Reason, Serve, Step, Write

OTHER = "other.example.com"
TAKEN = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
SHARED = "com.example.lanky.v1.Lanky"  # the definition of a custom resource
TAKEN_PARAMETER = "limit-1NfNmdNH"
_GVK = "x-kubernetes-group-version-kind"
_JSON = {"Accept": "application/json"}


def ref(name: str) -> Obj:
    """Return a reference to a definition."""
    return {"$ref": f"#/definitions/{name}"}


def operation(*schemas: Obj, **more: Any) -> Obj:
    """Return a path item with an operation that answers by a schema, and reads others."""
    answers = {"default": {"description": "else"}, "200": {"schema": schemas[0], "description": "OK", "z": 1}}
    read = [{"schema": schema, "name": "body", "in": "body"} for schema in schemas[1:]]
    parameters = [*read, *({"$ref": f"#/parameters/{name}"} for name in ("own", TAKEN_PARAMETER))]
    return {"get": {"parameters": parameters, "operationId": "x", "responses": answers, "z": 1, **more}}


FLUNDER: Obj = {
    "required": ["b", "a"],
    "type": ["object"],
    "z": {"b": 1, "a": 2},
    "x-b": {"b": 1, "a": 2},
    "x-a": True,
    "properties": {
        "metadata": ref(TAKEN),
        "lanky": {"allOf": [ref(SHARED)], "default": {"b": 1, "a": 2}, "description": ""},
        "any": {"additionalProperties": True, "type": "object", "nullable": False},
        "none": {"additionalProperties": False, "maximum": 0, "minLength": 0, "readOnly": True, "title": "T"},
        "description": {"type": ["string", "null"], "enum": ["b", "a"], "description": "a property"},
        "many": {"items": {"additionalProperties": {"$ref": "#/definitions/com.example.wardle.Self"}}},
    },
}
PARAMETER = {"uniqueItems": True, "type": "integer", "name": "limit", "in": "query", "z": 1, "x-z": 1}
DOCUMENT: Obj = {
    "swagger": "2.0",
    "info": {"title": "wardle", "version": "v0"},
    "z": 1,
    "paths": {
        f"{PATH}/flunders": operation(
            ref("com.example.wardle.Flunder"), ref(SHARED), tags=[], deprecated=True, summary="S", consumes=["*/*"]
        ),
        f"/apis/{GROUP}/v1beta1/fish": {**operation(ref("com.example.wardle.Fish")), "parameters": [], "x-p": 1},
        f"/apis/{GROUP}/": operation(ref("com.example.wardle.Group")),
        f"/apis/{OTHER}/v1/others": operation({"type": "string", "format": "z"}),
        "/apis/lanky.example.com/v1/lankies": operation(ref("com.example.wardle.Hidden")),
        "x-paths": {"b": 1},
    },
    "definitions": {
        "com.example.wardle.Flunder": FLUNDER,
        "com.example.wardle.Fish": {"type": "object", _GVK: [{"group": GROUP, "version": "v1beta1", "kind": "Fish"}]},
        "com.example.wardle.Group": {"type": "object"},
        "com.example.wardle.Hidden": {"type": "object"},
        "com.example.wardle.Self": {"properties": {"self": ref("com.example.wardle.Self")}},
        "com.example.wardle.Unused": {"description": "nobody refers to it"},
        "com.example.wardle.Options": {"properties": {"preconditions": {"type": "string"}}},
        TAKEN: {"type": "object", "properties": {"other": {"type": "string"}}},
        SHARED: {"type": "object", _GVK: [{"group": GROUP, "version": "v1", "kind": "Alike"}]},
    },
    "parameters": {
        "own": {"name": "body", "in": "body", "schema": ref("com.example.wardle.Options")},
        TAKEN_PARAMETER: PARAMETER,
    },
}
NAMES = [f"apis/{GROUP}", f"apis/{GROUP}/v1alpha1"]
INDEX = {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}?hash=A&more", "z": 1} for name in NAMES}}
V3_DOCUMENT = {"openapi": "3.0.0", "info": {"title": "wardle", "version": "v0"}, "paths": {}}


def trimmed(document: Obj) -> Any:
    """Return a v2 document as text, or an index of v3 documents, without what is not of aggregated servers."""
    if "swagger" in document:
        parts = {part: _own(document[part]) for part in ("paths", "definitions", "parameters")}
        return json.dumps({**document, "info": {}, "securityDefinitions": {}, **parts})
    if isinstance(document.get("paths"), dict) and "openapi" not in document:
        return {"paths": {name: _hidden(item) for name, item in document["paths"].items() if "wardle" in name}}
    return document


def _own(part: Obj) -> Obj:
    kept = (GROUP, OTHER, "com.example.wardle.", SHARED, "_v2")
    own = {name: value for name, value in part.items() if any(text in name for text in kept) or name == "own"}
    own.pop(f"{SHARED}List", None)
    if SHARED in own:  # its fields have descriptions of the server's own
        own[SHARED]["properties"] = sorted(own[SHARED]["properties"])
    return own


def _hidden(item: Obj) -> Obj:
    """Return an item of an index without a hash of the server's own."""
    url, _, value = item["serverRelativeURL"].partition("?hash=")
    return {**item, "serverRelativeURL": f"{url}?hash={value if len(value) < 10 else 'HASH'}"}


def steps(port: int, bundle: str, _: str) -> Iterator[Step]:
    """Yield the steps, with an aggregated server at a port."""
    names = [f"v1alpha1.{GROUP}", f"v1beta1.{GROUP}", f"v1.{OTHER}"]
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": "lanky.example.com", "names": {"plural": "lankies", "kind": "Lanky"}, "scope": "Cluster"}
    body = {"metadata": {"name": "lankies.lanky.example.com"}, "spec": {**spec, "versions": versions}}
    yield Write("POST", DEFINITIONS, body)
    yield Ask("/openapi/v3", shows="lanky", waits=True)
    yield Serve("/openapi/v3", INDEX)
    yield Serve(f"/openapi/v3/{NAMES[1]}", V3_DOCUMENT)
    yield Serve("/openapi/v2", DOCUMENT)
    yield Serve(f"/apis/{GROUP}/v1beta1", RESOURCES)
    yield Serve(f"/apis/{OTHER}/v1", RESOURCES)
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "wardle"}})
    yield service("v1alpha1", GROUP, (2000, 15), port, bundle)
    yield Reason("ServiceNotFound", names[0])
    external = {"type": "ExternalName", "externalName": "localhost"}
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": external})
    yield Reason("Passed", names[0])
    yield Ask("/openapi/v3", shows=NAMES[1])
    yield Ask(f"/openapi/v3/{NAMES[1]}")
    yield Ask(f"/openapi/v3/{NAMES[1]}?hash=A", alice=True)
    yield Ask(f"/openapi/v3/{NAMES[0]}")
    yield Ask("/openapi/v3/apis/none.example.com/v1")
    yield Ask("/openapi/v2", headers=_JSON, shows="flunders")
    yield service("v1beta1", GROUP, (2000, 10), port, bundle)
    yield service("v1", OTHER, (3000, 10), port, bundle)
    yield Reason("Passed", names[1])
    yield Reason("Passed", names[2])
    yield Ask("/openapi/v2", headers=_JSON, shows=f"/{OTHER}/v1/", waits=True)
    yield Ask("/openapi/v2", headers=_JSON, shows="v1beta1/fish")
    yield Write("DELETE", f"{SERVICES}/api")
    yield Reason("ServiceNotFound", names[0])
    yield Ask(f"/openapi/v3/{NAMES[1]}", until=503)
    yield Ask("/openapi/v2", headers=_JSON, shows="flunders")
    yield Ask("/openapi/v3", shows=NAMES[1])
    for name in names:
        yield Write("DELETE", f"{API_SERVICES}/{name}")
    yield Ask("/openapi/v3", hides=NAMES[1])
    yield Ask("/openapi/v2", headers=_JSON, hides="wardle")
    yield Ask(f"/openapi/v3/{NAMES[1]}", until=404)
    yield Write("DELETE", f"{DEFINITIONS}/lankies.lanky.example.com")


def steps_without_v3(port: int, bundle: str, _: str) -> Iterator[Step]:
    """Yield the steps with an aggregated server that has no v3 documents: its v2 is converted."""
    name = f"v1alpha1.{GROUP}"
    yield Serve("/openapi/v2", LEGACY)
    yield Serve(f"{PATH}", RESOURCES)
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "wardle"}})
    external = {"type": "ExternalName", "externalName": "localhost"}
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": external})
    yield service("v1alpha1", GROUP, (2000, 15), port, bundle)
    yield Reason("Passed", name)
    yield Ask("/openapi/v3", shows=NAMES[1])
    yield Ask(f"/openapi/v3/{NAMES[1]}")
    yield Ask(f"/openapi/v3/{NAMES[1]}?hash=A")
    yield Ask(f"/openapi/v3/{NAMES[1]}", headers={"Accept": "text/plain"})
    yield Ask(f"/openapi/v3/{NAMES[0]}")
    yield Write("DELETE", f"{API_SERVICES}/{name}")
    yield Ask("/openapi/v3", hides=NAMES[1])
    yield Ask(f"/openapi/v3/{NAMES[1]}")
    yield Write("DELETE", f"{SERVICES}/api")


_SIBLINGS = {**ref("com.example.wardle.Self"), "description": "beside a reference"}
_HEADER = {"name": "h", "in": "header", "type": "string", "format": "f", "required": True, "description": "D"}
_BEARER = {"type": "apiKey", "name": "authorization", "in": "header", "description": "a token", "x-s": 1}
_FLOW = {"type": "oauth2", "flow": "implicit", "authorizationUrl": "https://a", "scopes": {"s": "all"}}
LEGACY: Obj = {
    **DOCUMENT,
    "info": {"title": "wardle", "version": "v0", "description": "an old one", "z": 1, "x-i": 1},
    "produces": ["application/json"],
    "externalDocs": {"description": "more", "url": "https://example.com"},
    "securityDefinitions": {"BearerToken": _BEARER, "flow": _FLOW},
    "responses": {"Gone": {"description": "gone", "schema": ref("com.example.wardle.Self"), "x-r": 1}},
    "paths": {
        **DOCUMENT["paths"],
        f"{PATH}/old": {
            **operation(ref("com.example.wardle.Flunder"), _SIBLINGS, consumes=["a/b", "c/d"], produces=["e/f"]),
            "parameters": [_HEADER, {"name": "n", "in": "query", "uniqueItems": True, "type": "array"}],
            "post": {"responses": {"404": {"$ref": "#/responses/Gone"}}, "tags": ["t"], "externalDocs": {"url": "u"}},
        },
    },
    "definitions": {
        **DOCUMENT["definitions"],
        "com.example.wardle.Nested": {
            "properties": {"a": _SIBLINGS, "b": {"items": _SIBLINGS}, "c": {"items": [ref(SHARED), ref(TAKEN)]}},
            "additionalProperties": ref(SHARED),
            "anyOf": [ref(SHARED), _SIBLINGS],
            "not": _SIBLINGS,
        },
    },
}
