"""OpenAPI v2 (Swagger), converted from the v3 documents, and its protobuf form.

The real server converts in the other direction, with the same result: references stand alone, unions of scalars
become strings, defaults are left out. The protobuf form is the Document of github.com/google/gnostic-models
(openapiv2/OpenAPIv2.proto); MESSAGES has the field numbers of those parts of it that built-in kinds use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

from understudy.apiserver.endpoints.negotiation import MEDIA, PATCHES, PROTOBUF, STREAMS
from understudy.machinery.golang.json_writer import encode_unescaped
from understudy.machinery.types import Obj

V3_REFERENCE, V2_REFERENCE = "#/components/schemas/", "#/definitions/"
# The unions of built-in kinds: ports and quantities.
_UNIONS = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "number"}])
_GVK = "x-kubernetes-group-version-kind"
_KEPT = (_GVK, "x-kubernetes-selectable-fields")
_MEDIA_TYPES = ("*/*", *MEDIA, *STREAMS, *PATCHES)


def swagger(version: str, documents: Iterable[Obj]) -> Obj:
    """Return one v2 document made of many v3 documents."""
    paths: Obj = {}
    definitions: Obj = {}
    for document in documents:
        paths.update({path: _path_item(item) for path, item in document["paths"].items()})
        schemas = document.get("components", {}).get("schemas", {})
        definitions.update({name: _definition(shape) for name, shape in schemas.items() if name not in definitions})
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
    }


def _definition(shape: Obj) -> Obj:
    """Return a whole v3 schema in the form of v2. Objects that may have any field have none there, not even those of
    all objects: kubectl would refuse all others (`buildKubeNative`)."""
    if not shape.get("x-kubernetes-preserve-unknown-fields"):
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
        elif key == "oneOf" and value in _UNIONS:
            out["type"] = "string"
        elif key in ("allOf", "anyOf", "oneOf", "not"):
            continue
        elif key == "properties":
            out[key] = {name: schema(field) for name, field in value.items()}
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            out[key] = schema(value)
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


def _path_item(item: Obj) -> Obj:
    """Return a v3 path item in the form of v2."""
    out: Obj = {}
    for key, value in item.items():
        out[key] = [_parameter(p) for p in value] if key == "parameters" else _operation(value)
    return out


def _parameter(parameter: Obj) -> Obj:
    """Return a v3 parameter in the form of v2, which has its schema inline."""
    shape = dict(sorted(parameter["schema"].items(), reverse=True))  # uniqueItems before type
    return {**shape, **{key: value for key, value in parameter.items() if key != "schema"}}


def _operation(operation: Obj) -> Obj:
    """Return a v3 operation in the form of v2."""
    out: Obj = {"description": operation["description"]}
    body = operation.get("requestBody")
    answers = operation["responses"]["200"].get("content", {})
    if body:
        out["consumes"] = _media_types(body["content"])
    elif answers:  # built-in resources read the form of the answer that is asked for, too
        out["consumes"] = ["*/*"] if _GVK in operation and PROTOBUF in answers else _media_types(answers)
    if answers:
        out["produces"] = _media_types(answers)
    out["schemes"] = ["https"]
    for key in ("tags", "operationId"):
        if key in operation:
            out[key] = operation[key]
    parameters = [_parameter(p) for p in operation.get("parameters", ())]
    if body:
        shape = schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": shape})
    if parameters:
        out["parameters"] = parameters
    out["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    out.update({key: value for key, value in operation.items() if key.startswith("x-")})
    if _GVK in out:
        out[_GVK] = dict(sorted(out[_GVK].items()))
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


def encode(document: Obj) -> bytes:
    """Return a v2 document as the protobuf message `Document` of gnostic."""
    return _message("Document", document)


# {message: {JSON key: (field number, kind)}}. A kind is a scalar, a message, a writer of WRITERS, or one of those in
# brackets if it is repeated. Keys that begin with x- are vendor extensions, whose number stands under "x-".
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Document": {
        "swagger": (1, "string"),
        "info": (2, "Info"),
        "paths": (8, "Paths"),
        "definitions": (9, "named Schema"),
    },
    "Info": {"title": (1, "string"), "version": (2, "string")},
    "PathItem": {
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "patch": (8, "Operation"),
        "parameters": (9, "[ParametersItem]"),
    },
    "Operation": {
        "tags": (1, "[string]"),
        "description": (3, "string"),
        "operationId": (5, "string"),
        "produces": (6, "[string]"),
        "consumes": (7, "[string]"),
        "parameters": (8, "[ParametersItem]"),
        "responses": (9, "Responses"),
        "schemes": (10, "[string]"),
        "x-": (13, "Extension"),
    },
    "BodyParameter": {"name": (2, "string"), "in": (3, "string"), "required": (4, "bool"), "schema": (5, "Schema")},
    "QueryParameter": {
        "in": (2, "string"),
        "name": (4, "string"),
        "type": (6, "string"),
        "uniqueItems": (20, "bool"),
    },
    "PathParameter": {
        "required": (1, "bool"),
        "in": (2, "string"),
        "name": (4, "string"),
        "type": (5, "string"),
        "uniqueItems": (19, "bool"),
    },
    "Response": {"description": (1, "string"), "schema": (2, "SchemaItem")},
    "Schema": {
        "$ref": (1, "string"),
        "format": (2, "string"),
        "title": (3, "string"),
        "description": (4, "string"),
        "default": (5, "Any"),
        "multipleOf": (6, "double"),
        "maximum": (7, "double"),
        "exclusiveMaximum": (8, "bool"),
        "minimum": (9, "double"),
        "exclusiveMinimum": (10, "bool"),
        "maxLength": (11, "int"),
        "minLength": (12, "int"),
        "pattern": (13, "string"),
        "maxItems": (14, "int"),
        "minItems": (15, "int"),
        "uniqueItems": (16, "bool"),
        "maxProperties": (17, "int"),
        "minProperties": (18, "int"),
        "required": (19, "[string]"),
        "enum": (20, "[Any]"),
        "additionalProperties": (21, "AdditionalProperties"),
        "type": (22, "Type"),
        "items": (23, "Items"),
        "properties": (25, "named Schema"),
        "x-": (31, "Extension"),
    },
}


def _message(name: str, value: Obj) -> bytes:
    fields = MESSAGES[name]
    out = bytearray()
    for key, item in value.items():
        extension = key.startswith("x-")
        number, kind = fields["x-" if extension else key]
        if extension:
            out += _bytes(number, _named(key, _any(item)))
        elif kind.startswith("["):
            for element in item:
                out += _field(number, kind[1:-1], element)
        else:
            out += _field(number, kind, item)
    return bytes(out)


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind == "string":
        return _bytes(number, value.encode())
    if kind in ("bool", "int"):
        return _varint(number << 3) + _varint(int(value))
    if kind == "double":
        return _varint(number << 3 | 1) + pack("<d", value)
    return _bytes(number, _body(kind, value))


def _body(kind: str, value: Any) -> bytes:
    if kind in WRITERS:
        return WRITERS[kind](value)
    if kind.startswith("named "):
        inner = kind.removeprefix("named ")
        return b"".join(_bytes(1, _named(name, _body(inner, item))) for name, item in value.items())
    return _message(kind, value)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _named(name: str, content: bytes) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, content)


def _any(value: Any) -> bytes:
    """Return any value as YAML, of which JSON is a part."""
    return _bytes(2, encode_unescaped(value) + b"\n")


def _parameters_item(parameter: Obj) -> bytes:
    """Return a parameter in its nested messages.

    These are ParametersItem > Parameter > BodyParameter, or > NonBodyParameter > QueryParameter or PathParameter.
    """
    if parameter["in"] == "body":
        return _bytes(1, _bytes(1, _message("BodyParameter", parameter)))
    number, kind = (4, "PathParameter") if parameter["in"] == "path" else (3, "QueryParameter")
    return _bytes(1, _bytes(2, _bytes(number, _message(kind, parameter))))


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "Any": _any,
    "Paths": lambda paths: b"".join(_bytes(2, _named(p, _message("PathItem", item))) for p, item in paths.items()),
    "ParametersItem": _parameters_item,
    "Responses": lambda responses: b"".join(
        _bytes(1, _named(code, _bytes(1, _message("Response", answer)))) for code, answer in responses.items()
    ),
    "SchemaItem": lambda shape: _bytes(1, _message("Schema", shape)),
    "AdditionalProperties": lambda shape: _bytes(1, _message("Schema", shape)),
    "Type": lambda name: _bytes(1, name.encode()),
    "Items": lambda shape: _bytes(1, _message("Schema", shape)),
}
