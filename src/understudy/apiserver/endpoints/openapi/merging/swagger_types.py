"""The types of OpenAPI v2 as Go has them: documents of other servers are read by them and written anew.

Fields that a type does not have get lost, but for vendor extensions (and any in schemas); empty ones too. The others
are written in the order of the type, keys of maps sorted. Upstream: `k8s.io/kube-openapi/pkg/validation/spec`.
"""

from __future__ import annotations

from typing import Any

from understudy.apiserver.endpoints.openapi.merging.values import in_key_order
from understudy.machinery.types import Obj

# {type: {field: type of its value}}, fields in Go's order. A type of a value is "" for a scalar, "any", the name of a
# type, or one in brackets for a list, or in braces for a map.
_RANGES = dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"), "")
_LENGTHS = dict.fromkeys(("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf"), "")
_VALIDATIONS = {**_RANGES, **_LENGTHS, "enum": "[any]"}
_SIMPLE = {
    "type": "",
    "nullable": "",
    "format": "",
    "items": "Items",
    "collectionFormat": "",
    "default": "any",
    "example": "any",
}
_DOCS = {"description": "", "url": ""}
_TYPES: dict[str, dict[str, str]] = {
    "Swagger": {"paths": "Paths", "definitions": "{Schema}", "parameters": "{Parameter}", "responses": "{Response}"},
    "PathItem": {
        "$ref": "",
        **dict.fromkeys(("get", "put", "post", "delete", "options", "head", "patch"), "Operation"),
        "parameters": "[Parameter]",
    },
    "Operation": {
        "description": "",
        **dict.fromkeys(("consumes", "produces", "schemes", "tags"), "[]"),
        "summary": "",
        "externalDocs": "ExternalDocs",
        "operationId": "",
        "deprecated": "",
        "security": "[any]",
        "parameters": "[Parameter]",
        "responses": "Responses",
    },
    "Parameter": {
        **_VALIDATIONS,
        **_SIMPLE,
        **dict.fromkeys(("description", "name", "in", "required"), ""),
        "schema": "Schema",
        "allowEmptyValue": "",
        "$ref": "",
    },
    "Items": {**_VALIDATIONS, **_SIMPLE, "$ref": ""},
    "Header": {**_VALIDATIONS, **_SIMPLE, "description": ""},
    "Response": {"$ref": "", "description": "", "schema": "Schema", "headers": "{Header}", "examples": "{any}"},
    "ExternalDocs": _DOCS,
    "Schema": {
        **dict.fromkeys(("id", "description", "type", "nullable", "format", "title"), ""),
        "default": "any",
        **_VALIDATIONS,
        **dict.fromkeys(("maxProperties", "minProperties"), ""),
        "required": "[]",
        "items": "Schema",
        **dict.fromkeys(("allOf", "oneOf", "anyOf"), "[Schema]"),
        "not": "Schema",
        "properties": "{Schema}",
        "additionalProperties": "Schema",
        "patternProperties": "{Schema}",
        "dependencies": "any",
        "additionalItems": "Schema",
        "definitions": "{Schema}",
        "discriminator": "",
        "readOnly": "",
        "externalDocs": "ExternalDocs",
        "example": "any",
        "$schema": "",
        "$ref": "",
    },
}
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def as_read(document: Any) -> Obj:
    """Return the paths, definitions, parameters and responses of a document as Go reads them. Raises ValueError."""
    try:
        return {"paths": {}, "definitions": {}, "parameters": {}, **_object("Swagger", document)}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"no OpenAPI document: {error}") from None


def extensions_of(value: Obj) -> Obj:
    """Return the vendor extensions of an object, as Go writes them."""
    return {name.lower(): in_key_order(value[name]) for name in sorted(value) if _is_extension(name)}


def _value(kind: str, value: Any) -> Any:
    """Return the value of a field."""
    if kind == "any":
        return in_key_order(value)
    if kind.startswith("["):
        return [_value(kind[1:-1], item) for item in value]
    if kind.startswith("{"):
        return {name: _value(kind[1:-1], value[name]) for name in sorted(value)}
    if kind == "Paths":
        return {path: _object("PathItem", value[path]) for path in sorted(value) if path.startswith("/")}
    if kind == "Responses":
        codes = sorted((code for code in value if not _is_extension(code)), key=lambda code: (code != "default", code))
        return {code: _object("Response", value[code]) for code in codes}
    if kind == "Schema" and not isinstance(value, dict):  # `true`, or one for each item
        return value if isinstance(value, bool) else [_object(kind, item) for item in value]
    return _object(kind, value) if kind else value


def _object(kind: str, value: Obj) -> Obj:
    """Return an object of a type, its extensions at the end."""
    fields = _TYPES[kind]
    out = {name: _value(fields[name], value[name]) for name in fields if not _is_left_out(name, value.get(name))}
    if isinstance(types := out.get("type"), list) and len(types) == 1:
        out["type"] = types[0]
    others = (name for name in value if name not in fields and (_is_extension(name) or kind == "Schema"))
    return out | {name: in_key_order(value[name]) for name in sorted(others)}


def _is_left_out(name: str, value: Any) -> bool:
    """Report whether a field is empty; a map with an empty object, and permission for any property, are not."""
    return value in _EMPTY if value is not False else name not in ("additionalProperties", "additionalItems")


def _is_extension(name: str) -> bool:
    return name.lower().startswith("x-")
