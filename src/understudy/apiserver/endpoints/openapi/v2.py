"""OpenAPI v2 (Swagger), converted from the v3 documents.

The real server converts in the other direction, with the same result: references are alone, unions of scalars
become strings, defaults are left out, and parameters that do not speak of one kind are there once, under `parameters`.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Container, Iterable
from functools import cache
from operator import itemgetter

import orjson

from understudy.apiserver.endpoints.negotiation import JSON, MEDIA, PATCHES, STREAMS, YAML
from understudy.apiserver.endpoints.openapi import meta_kinds
from understudy.apiserver.endpoints.openapi.merging.values import in_key_order
from understudy.apiserver.endpoints.openapi.operations import DELETE_OPTIONS, WATCH_EVENT
from understudy.machinery.golang.json_writer import encode, encode_unescaped
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

V3_REFERENCE, V2_REFERENCE = "#/components/schemas/", "#/definitions/"
# The unions of built-in kinds: ports and quantities.
_UNIONS = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "number"}])
_GVK = "x-kubernetes-group-version-kind"
_KEPT = (_GVK, "x-kubernetes-selectable-fields")
_MEDIA_TYPES = ("*/*", "text/plain", *MEDIA, *STREAMS, *PATCHES, "application/jwk-set+json")
_META = f"{V2_REFERENCE}io.k8s.apimachinery"
# The group whose operations the aggregator describes itself: it writes their kinds in the order of Go's fields.
_OF_AGGREGATOR = "/apis/apiregistration.k8s.io/"


def swagger(version: Version, documents: Iterable[Obj], open_types: Container[str] = ()) -> Obj:
    """Return one v2 document made of many v3 documents. Objects of open types may have any field."""
    paths: Obj = {}
    definitions: Obj = {}
    parameters: Obj = {}
    security: Obj = {}
    for document in documents:
        paths.update({path: _path_item(path, item, parameters) for path, item in document["paths"].items()})
        components = document["components"]
        schemas = components.get("schemas", {})
        new = {name: shape for name, shape in schemas.items() if name not in definitions}
        definitions.update({name: _definition(shape, is_open=name in open_types) for name, shape in new.items()})
        security.update(components.get("securitySchemes", {}))
    for name in {DELETE_OPTIONS, WATCH_EVENT} & definitions.keys():
        definitions[name] |= {_GVK: meta_kinds.known_to_server(name.rpartition(".")[2], version)}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version.number},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "parameters": dict(sorted(parameters.items())),
        "securityDefinitions": {
            name: {key: scheme[key] for key in ("description", "type", "name", "in")}
            for name, scheme in security.items()
        },
        "security": [{name: []} for name in security],
    }


def _definition(shape: Obj, *, is_open: bool) -> Obj:
    """Return a whole v3 schema in the form of v2. Objects that may have any field have none there, not even those of
    all objects: kubectl would refuse all others (`buildKubeNative`)."""
    if not is_open and not shape.get("x-kubernetes-preserve-unknown-fields"):
        return schema(shape)
    return {"type": "object", **{name: shape[name] for name in _KEPT if name in shape}}


def schema(shape: Obj) -> Obj:
    """Return a v3 schema in the form of v2.

    A schema of a custom resource loses what kubectl's reader of v2 does not understand (`ToStructuralOpenAPIV2`).
    """
    out: Obj = {}
    for key, value in _without_nullable(shape).items():
        if key == "$ref":
            out[key] = value.replace(V3_REFERENCE, V2_REFERENCE)
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            out.update(schema(value[0]))
        elif key == "format" and shape.get("oneOf") in _UNIONS:
            out["type"] = "string"
            out[key] = value
        elif key == "oneOf" and value in _UNIONS:
            out["type"] = "string"
        elif key in ("allOf", "anyOf", "oneOf", "not"):
            continue
        elif key == "properties":
            out[key] = {name: schema(field) for name, field in value.items()}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            out[key] = schema(value)
        elif key.startswith("x-") or key == "enum":
            out[key] = in_key_order(value)
        elif key != "default":
            out[key] = value
    return out


def _without_nullable(shape: Obj) -> Obj:
    """Return a v3 schema without what values may hold that are null or have unknown fields: v2 knows neither."""
    nullable, open_ = shape.get("nullable"), shape.get("x-kubernetes-preserve-unknown-fields")
    if not nullable and not open_:
        return shape
    dropped = {"nullable", "items", "properties"}
    if nullable or shape.get("type") in ("array", "object"):
        dropped.add("type")
    kept = {key: value for key, value in shape.items() if key not in dropped}
    if open_ and "x-kubernetes-embedded-resource" in kept:  # v3 has added these for the properties that are dropped
        required = [name for name in kept.pop("required", ()) if name not in ("kind", "apiVersion")]
        return {**kept, "required": required} if required else kept
    return kept


def _path_item(path: str, item: Obj, shared: Obj) -> Obj:
    """Return a v3 path item in the form of v2, and add parameters that others have, too, to `shared`."""
    out: Obj = {}
    for key, value in item.items():
        if key == "parameters":
            out[key] = [_reference(_parameter(parameter), shared) for parameter in value]
            continue
        out[key] = _operation(value, shared)
        if _GVK in value and not path.startswith(_OF_AGGREGATOR):
            out[key][_GVK] = dict(sorted(value[_GVK].items()))
    return out


def _parameter(parameter: Obj) -> Obj:
    """Return a v3 parameter in the form of v2, which has its schema inline."""
    shape = parameter["schema"]
    own: Obj = {key: parameter[key] for key in ("description", "name", "in", "required") if key in parameter}
    return {"uniqueItems": shape["uniqueItems"], "type": shape["type"], **own}


def _reference(parameter: Obj, shared: Obj) -> Obj:
    """Return a reference to a parameter, which is added to `shared`, or one that is not shared as it is."""
    if not _is_shared(parameter):
        return parameter
    name = _shared_name(encode_unescaped(parameter))
    shared[name] = parameter
    return {"$ref": f"#/parameters/{name}"}


def _is_shared(parameter: Obj) -> bool:
    """Report whether a parameter is shared (`collectSharedParameters`).

    It is not if it speaks of one kind, or if old versions of kubectl look for it in the operation.
    """
    if parameter["in"] == "body":
        return bool(parameter["schema"].get("$ref", "").startswith(_META))
    return parameter["name"] not in ("name", "fieldValidation", "dryRun")


@cache
def _shared_name(parameter: bytes) -> str:
    """Return the name of a shared parameter, which ends with the FNV-1 hash of its JSON in base64."""
    value = 0xCBF29CE484222325
    content = orjson.loads(parameter)
    for byte in encode(content):
        value = (value * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
    return f"{content['name']}-{urlsafe_b64encode(value.to_bytes(8)[:6]).decode()}"


def _operation(operation: Obj, shared: Obj) -> Obj:
    """Return a v3 operation in the form of v2, and add parameters that others have, too, to `shared`."""
    out: Obj = {"description": operation["description"]}
    body = operation.get("requestBody")
    answers = operation["responses"]["200"]["content"]
    if body:
        out["consumes"] = _media_types(body["content"])
    elif _GVK in operation and answers.keys() != {JSON, YAML}:  # built-in resources read whatever is sent
        out["consumes"] = ["*/*"]
    elif "$ref" in next(iter(answers.values()))["schema"]:
        out["consumes"] = _media_types(answers)
    out["produces"] = _media_types(answers)
    out["schemes"] = ["https"]
    out["tags"] = operation["tags"]
    out["operationId"] = operation["operationId"]
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    if body:
        shape = schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters.append({"name": "body", "in": "body", **required, "schema": shape})
    if parameters:
        out["parameters"] = [_reference(each, shared) for each in sorted(parameters, key=itemgetter("name"))]
    out["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    out.update({key: value for key, value in operation.items() if key.startswith("x-")})
    return out


def _media_types(content: Obj) -> list[str]:
    """Return the media types of a body, which v3 sorts, in the order of v2."""
    return [media_type for media_type in _MEDIA_TYPES if media_type in content]


def _response(answer: Obj) -> Obj:
    """Return a v3 response in the form of v2."""
    content = answer.get("content")
    if not content:
        return answer
    return {"description": answer["description"], "schema": schema(next(iter(content.values()))["schema"])}
