"""The protobuf form of OpenAPI v2: the message `Document` of github.com/google/gnostic-models.

MESSAGES has the field numbers (openapiv2/OpenAPIv2.proto) of what a document of a server has. Fields that gnostic does
not know, such as `oneOf`, are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from struct import pack
from typing import Any

import orjson

from understudy.machinery.golang.json_writer import encode_unescaped
from understudy.machinery.golang.yaml_writer import dump_yaml_v3
from understudy.machinery.serializer.protobuf_wire import BYTES, encode_varint, length_delimited
from understudy.machinery.types import Obj


def encode(document: Obj) -> bytes:
    """Return a v2 document as the protobuf message `Document` of gnostic."""
    return _message("Document", document)


def _primitive(first: int) -> dict[str, tuple[int, str]]:
    """Return the fields of a message about a value that is no object; `first` is the number of the first."""
    kinds = {
        **dict.fromkeys(("type", "format"), "string"),
        "items": "PrimitivesItems",
        "collectionFormat": "string",
        "default": "Any",
        "maximum": "double",
        "exclusiveMaximum": "bool",
        "minimum": "double",
        "exclusiveMinimum": "bool",
        **dict.fromkeys(("maxLength", "minLength"), "int"),
        "pattern": "string",
        **dict.fromkeys(("maxItems", "minItems"), "int"),
        "uniqueItems": "bool",
        "enum": "[Any]",
        "multipleOf": "double",
    }
    return {key: (number, kind) for number, (key, kind) in enumerate(kinds.items(), first)}


def _parameter_fields(*more: str) -> dict[str, tuple[int, str]]:
    """Return the fields of a parameter that is no body; `more` are those that only some places have."""
    kinds = {
        "required": "bool",
        **dict.fromkeys(("in", "description", "name"), "string"),
        **dict.fromkeys(more, "bool"),
    }
    own = {key: (number, kind) for number, (key, kind) in enumerate(kinds.items(), 1)}
    rest = _primitive(len(own) + 1)
    return {**own, **rest, "x-": (len(own) + len(rest) + 1, "Extension")}


# {message: {JSON key: (field number, kind)}}. A kind is a scalar, a message, a writer of WRITERS, or one of those in
# brackets if it is repeated. Keys that begin with x- are vendor extensions, whose number is under "x-".
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Document": {
        "swagger": (1, "string"),
        "info": (2, "Info"),
        "paths": (8, "Paths"),
        "definitions": (9, "named Schema"),
        "parameters": (10, "named Parameter"),
        "security": (12, "[SecurityRequirement]"),
        "securityDefinitions": (13, "named SecurityDefinition"),
    },
    "Info": {"title": (1, "string"), "version": (2, "string")},
    "PathItem": {
        "$ref": (1, "string"),
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "options": (6, "Operation"),
        "head": (7, "Operation"),
        "patch": (8, "Operation"),
        "parameters": (9, "[ParametersItem]"),
        "x-": (10, "Extension"),
    },
    "Operation": {
        "tags": (1, "[string]"),
        "summary": (2, "string"),
        "description": (3, "string"),
        "externalDocs": (4, "ExternalDocs"),
        "operationId": (5, "string"),
        "produces": (6, "[string]"),
        "consumes": (7, "[string]"),
        "parameters": (8, "[ParametersItem]"),
        "responses": (9, "Responses"),
        "schemes": (10, "[string]"),
        "deprecated": (11, "bool"),
        "security": (12, "[SecurityRequirement]"),
        "x-": (13, "Extension"),
    },
    "BodyParameter": {
        "description": (1, "string"),
        "name": (2, "string"),
        "in": (3, "string"),
        "required": (4, "bool"),
        "schema": (5, "Schema"),
        "x-": (6, "Extension"),
    },
    "QueryParameter": _parameter_fields("allowEmptyValue"),
    "PathParameter": _parameter_fields(),
    "PrimitivesItems": {**_primitive(1), "x-": (18, "Extension")},
    "Header": {**_primitive(1), "description": (18, "string"), "x-": (19, "Extension")},
    "ExternalDocs": {"description": (1, "string"), "url": (2, "string"), "x-": (3, "Extension")},
    "ApiKeySecurity": {
        "type": (1, "string"),
        "name": (2, "string"),
        "in": (3, "string"),
        "description": (4, "string"),
    },
    "Response": {
        "description": (1, "string"),
        "schema": (2, "SchemaItem"),
        "headers": (3, "named Header"),
        "examples": (4, "Examples"),
        "x-": (5, "Extension"),
    },
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
        "allOf": (24, "[Schema]"),
        "properties": (25, "named Schema"),
        "discriminator": (26, "string"),
        "readOnly": (27, "bool"),
        "externalDocs": (29, "ExternalDocs"),
        "example": (30, "Any"),
        "x-": (31, "Extension"),
    },
}


def _message(name: str, value: Obj) -> bytes:
    """Return a message, its fields in the order of their numbers, as Go's protobuf writes them."""
    fields = MESSAGES[name]
    written = []
    for key, item in value.items():
        extension = key.startswith("x-")
        number, kind = fields.get("x-" if extension else key, (0, ""))
        if not number:
            continue
        if extension:
            written.append((number, _bytes(number, _named(key, _any(item)))))
        elif kind.startswith("["):
            written.append((number, b"".join(_field(number, kind[1:-1], element) for element in item)))
        else:
            written.append((number, _field(number, kind, item)))
    return b"".join(content for _, content in sorted(written, key=itemgetter(0)))


def _field(number: int, kind: str, value: Any) -> bytes:
    if kind == "string":
        return _bytes(number, value.encode())
    if kind in ("bool", "int"):
        return encode_varint(number << 3) + encode_varint(int(value))
    if kind == "double":
        return encode_varint(number << 3 | 1) + pack("<d", value)
    return _bytes(number, _body(kind, value))


def _body(kind: str, value: Any) -> bytes:
    if kind in WRITERS:
        return WRITERS[kind](value)
    if kind.startswith("named "):
        inner = kind.removeprefix("named ")
        return b"".join(_bytes(1, _named(name, _body(inner, item))) for name, item in value.items())
    return _message(kind, value)


def _bytes(number: int, content: bytes) -> bytes:
    return length_delimited(encode_varint(number << 3 | BYTES), content)


def _named(name: str, content: bytes) -> bytes:
    return _bytes(1, name.encode()) + _bytes(2, content)


def _any(value: Any) -> bytes:
    """Return any value as YAML."""
    return _yaml(encode_unescaped(value))


@lru_cache(1024)
def _yaml(value: bytes) -> bytes:
    """Return a JSON value as YAML. Most values are found many times in a document."""
    return _bytes(2, dump_yaml_v3(orjson.loads(value)).encode())


def _parameters_item(parameter: Obj) -> bytes:
    """Return a parameter, or a reference to one."""
    if "$ref" in parameter:
        return _bytes(2, _bytes(1, parameter["$ref"].encode()))
    return _bytes(1, _parameter(parameter))


def _parameter(parameter: Obj) -> bytes:
    """Return a parameter in its nested messages: BodyParameter, or NonBodyParameter > QueryParameter or
    PathParameter."""
    if parameter["in"] == "body":
        return _bytes(1, _message("BodyParameter", parameter))
    number, kind = _PLACES[parameter["in"]]
    return _bytes(2, _bytes(number, _message(kind, parameter)))


def _response(answer: Obj) -> bytes:
    """Return an answer, or a reference to one."""
    if "$ref" in answer:
        return _bytes(2, _bytes(1, answer["$ref"].encode()))
    return _bytes(1, _message("Response", answer))


def _schemas(shape: Any) -> bytes:
    """Return a schema, several, or whether any value will do."""
    if isinstance(shape, bool):
        return _field(2, "bool", shape)
    return b"".join(_field(1, "Schema", each) for each in (shape if isinstance(shape, list) else [shape]))


# The number and message of parameters that are no bodies, by where they are. Those of headers are like those of paths.
_PLACES = {
    "header": (1, "PathParameter"),
    "formData": (2, "QueryParameter"),
    "query": (3, "QueryParameter"),
    "path": (4, "PathParameter"),
}
WRITERS: dict[str, Callable[[Any], bytes]] = {
    "Any": _any,
    "Paths": lambda paths: b"".join(_bytes(2, _named(p, _message("PathItem", item))) for p, item in paths.items()),
    "ParametersItem": _parameters_item,
    "Parameter": _parameter,
    "SecurityRequirement": lambda needed: b"".join(
        _bytes(1, _named(name, b"".join(_field(1, "string", scope) for scope in scopes)))
        for name, scopes in needed.items()
    ),
    "SecurityDefinition": lambda scheme: _bytes(2, _message("ApiKeySecurity", scheme)),
    "Responses": lambda responses: b"".join(
        _bytes(1, _named(code, _response(answer))) for code, answer in responses.items()
    ),
    "SchemaItem": lambda shape: _bytes(1, _message("Schema", shape)),
    "AdditionalProperties": _schemas,
    "Type": lambda names: b"".join(
        _field(1, "string", name) for name in ([names] if isinstance(names, str) else names)
    ),
    "Items": _schemas,
    "Examples": lambda examples: b"".join(_bytes(1, _named(name, _any(value))) for name, value in examples.items()),
}
