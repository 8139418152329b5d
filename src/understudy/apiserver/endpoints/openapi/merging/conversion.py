"""OpenAPI v2 documents as v3, for aggregated servers that have no v3. Upstream: `k8s.io/kube-openapi/pkg/openapiconv`.

What gets lost is lost there as well: references within `allOf` and the like stay as they are, and parameters that
operations only refer to are gone.
"""

from __future__ import annotations

from typing import Any

from understudy.apiserver.endpoints.openapi.merging.swagger_types import as_read, extensions_of
from understudy.machinery.types import Obj

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_KEPT = ("tags", "summary", "description", "externalDocs", "operationId")  # of operations
_OF_PARAMETERS = ("name", "in", "description", "required", "allowEmptyValue")
_HEAD = {
    "info": ("description", "title", "termsOfService", "contact", "license", "version"),
    "externalDocs": ("description", "url"),
}
_DEFINITION, _SCHEMA = "#/definitions/", "#/components/schemas/"
# Fields of a schema whose references are converted, and all in which there are schemas.
_CONVERTED = ("properties", "items", "additionalProperties", "additionalItems")
_NESTED = (*_CONVERTED, "allOf", "oneOf", "anyOf", "not", "patternProperties", "definitions")


def converted(document: Any) -> Obj:
    """Return a v2 document as v3. Raises ValueError."""
    try:
        return _document(document, as_read(document))
    except (AttributeError, TypeError) as error:
        raise ValueError(f"no OpenAPI document: {error}") from None


def _document(document: Obj, read: Obj) -> Obj:
    """Return a v2 document as v3. `read` is as much of it as v2 documents are merged of."""
    info, docs = ({name: _named(document[name], _HEAD[name])} if document.get(name) else {} for name in _HEAD)
    produced = document.get("produces") or []
    components = {
        "schemas": {name: _schema(schema) for name, schema in read["definitions"].items()},
        "securitySchemes": {
            name: _security(scheme) for name, scheme in (document.get("securityDefinitions") or {}).items()
        },
        "responses": {name: _response(each, produced) for name, each in read.get("responses", {}).items()},
    }
    paths = {path: _path_item(item) for path, item in read["paths"].items()}
    return {
        "openapi": "3.0.0",
        **info,
        "paths": {**paths, **extensions_of(document.get("paths") or {})},
        "components": {name: part for name, part in components.items() if part},
        **docs,
    }


def _named(part: Obj, fields: tuple[str, ...]) -> Obj:
    return {**{name: part[name] for name in fields if part.get(name)}, **extensions_of(part)}


def _path_item(item: Obj) -> Obj:
    parameters = {"parameters": [_parameter(each) for each in item["parameters"]]} if item.get("parameters") else {}
    operations = {method: _operation(item[method]) for method in _METHODS if method in item}
    return {**_references(item), **operations, **parameters, **extensions_of(item)}


def _operation(operation: Obj) -> Obj:
    body: Obj = {}
    parameters = []
    for parameter in operation.get("parameters") or ():
        if parameter.get("name") == "body" and "schema" in parameter:
            body = {"requestBody": _content(parameter["schema"], operation.get("consumes") or ())}
        else:
            parameters.append(_parameter(parameter))
    responses = operation.get("responses") or {}
    produced = operation.get("produces") or ()
    return {
        **{name: operation[name] for name in _KEPT if name in operation},
        **({"parameters": parameters} if parameters else {}),
        **body,
        "responses": {code: _response(each, produced) for code, each in responses.items() if isinstance(each, dict)},
        **({"deprecated": operation["deprecated"]} if "deprecated" in operation else {}),
        **extensions_of(operation),
    }


def _content(schema: Any, media_types: Any) -> Obj:
    """Return the field with a schema for each media type, none without any."""
    return {"content": {media: {"schema": _schema(schema)} for media in media_types}} if media_types else {}


def _response(response: Obj, produced: Any) -> Obj:
    described = {"description": response["description"]} if response.get("description") else {}
    content = _content(response["schema"], produced) if "schema" in response else {}
    kept = _references(response, "#/responses/", "#/components/responses/")
    return {**kept, **described, **content, **extensions_of(response)}


def _parameter(parameter: Obj) -> Obj:
    """Return a parameter, whose type becomes a schema."""
    out = {name: parameter[name] for name in _OF_PARAMETERS if name in parameter}
    if "schema" in parameter:
        schema = _schema(parameter["schema"])
    else:
        typed = {name: parameter[name] for name in ("format", "uniqueItems") if name in parameter}
        schema = {"type": parameter.get("type", ""), **typed}
    kept = _references(parameter, "#/parameters/", "#/components/parameters/")
    return {**kept, **out, "schema": schema, **extensions_of(parameter)}


def _references(part: Obj, before: str = "", after: str = "") -> Obj:
    """Return the reference of a part, if it is one."""
    return {"$ref": part["$ref"].replace(before, after, 1)} if part.get("$ref") else {}


def _security(scheme: Obj) -> Obj:
    out = {name: scheme[name] for name in ("type", "description", "name", "in") if scheme.get(name)}
    if scheme.get("flow"):
        urls = {name: scheme[name] for name in ("authorizationUrl", "tokenUrl", "scopes") if scheme.get(name)}
        out["flows"] = {scheme["flow"]: urls}
    return out | extensions_of(scheme)


def _schema(schema: Any, *, converts: bool = True) -> Any:
    """Return a schema with its references to v3's, which have no fields beside them.

    converts  whether references are converted
    """
    if not isinstance(schema, dict):
        return [_schema(item) for item in schema] if isinstance(schema, list) else schema
    out = dict(schema)
    for name in _NESTED:
        if name in schema:
            out[name] = _nested(name, schema[name], converts and name in _CONVERTED)
    reference = out.get("$ref")
    if reference and converts:
        reference = reference[reference.find(_DEFINITION) :].replace(_DEFINITION, _SCHEMA, 1)
        out["$ref"] = reference
    if reference and len(out) > 1:
        del out["$ref"]
        out["allOf"] = [{"$ref": reference}]
    return out


def _nested(name: str, value: Any, converts: bool) -> Any:
    if name in ("properties", "patternProperties", "definitions"):
        return {key: _schema(each, converts=converts) for key, each in value.items()}
    if isinstance(value, list):
        return [_schema(each, converts=converts) for each in value]
    return _schema(value, converts=converts)
