"""Validation that the schema of a custom resource is structural: each field has a type, once and outside of logic.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
# Unsupported fields of a schema, in the order of the checks, with their Go names.
_UNSUPPORTED = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}
# Fields that the schemas in allOf, anyOf, oneOf and not cannot set: (field, its only value in messages).
_NOT_IN_LOGIC = (
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)
_POINTERS = ("default", "x-kubernetes-list-type", "x-kubernetes-map-type")
_SAME_WHEN_EMPTY = frozenset(("enum", "allOf", "anyOf", "oneOf", "properties"))
# Fields that the schema of metadata at the root may set, besides restrictions of names.
_METADATA = ("type", "default", "example", "externalDocs")


def unfit(schema: Obj) -> str:
    """Return the reason that a schema cannot be read as a structural one at all; "" if it can."""
    for name, field in _UNSUPPORTED.items():
        if schema.get(name) or (name == "additionalItems" and schema.get(name) is not None):
            return f"OpenAPIV3Schema '{field}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for part in _inside(schema):
        if text := unfit(part):
            return text
    return ""


def is_structural(schema: Obj) -> bool:
    """Report whether a schema is structural. One that is not may be stored still, from the days of v1beta1."""
    return not unfit(schema) and not validate(schema, Path())


def _inside(schema: Obj) -> list[Obj]:
    logic = [schema.get("not"), *(part for name in ("allOf", "anyOf", "oneOf") for part in schema.get(name) or ())]
    fields = [schema.get("items"), *(schema.get("properties") or {}).values(), schema.get("additionalProperties")]
    return [part for part in (*logic, *fields) if isinstance(part, dict)]


def validate(schema: Obj, path: Path) -> Errors:
    """Return the errors of a schema that is not structural, sorted by text as the real server sorts them."""
    errors = _structure(schema, _ROOT, path) + _complete(schema, schema, path, path)
    return sorted(errors, key=lambda e: f"{e.field}: {e.type.text}: {e.detail}")  # all at one field show one value


def _structure(schema: Obj, level: str, path: Path) -> Errors:
    errors: Errors = []
    items, others = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        errors.append(required(path.child("items"), "must be specified"))
    if isinstance(items, dict):
        errors += _structure(items, _ITEM, path.child("items"))
    for name, part in (schema.get("properties") or {}).items():
        errors += _structure(part, _FIELD, path.child("properties").key(name))
    if others is not None and level == _ROOT:
        errors.append(forbidden(path.child("additionalProperties"), "must not be used at the root"))
    if isinstance(others, dict):
        errors += _structure(others, _FIELD, path.child("additionalProperties"))
    errors += _extensions(schema, path) + _logic(schema, path, outside=True)
    return errors + _type(schema, level, path) + _meta(schema, level, path)


def _extensions(schema: Obj, path: Path) -> Errors:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    names = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    text = "must be false if x-kubernetes-int-or-string is true"
    return [invalid(path.child(name), True, text) for name in names if schema.get(name)]


def _type(schema: Obj, level: str, path: Path) -> Errors:
    kind, embedded = schema.get("type", ""), schema.get("x-kubernetes-embedded-resource")
    where, errors = path.child("type"), []
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(invalid(where, kind, text) if kind else required(where, text))
    elif not (kind or schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
        errors.append(required(where, f"must not be empty {level}"))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(path.child("additionalProperties"), text))
    if level == _ROOT and kind and kind != "object":
        errors.append(invalid(where, kind, "must be object at the root"))
    return errors


def _meta(schema: Obj, level: str, path: Path) -> Errors:
    """Check kind, version and metadata of a schema that describes a whole object."""
    properties, embedded = schema.get("properties") or {}, bool(schema.get("x-kubernetes-embedded-resource"))
    whole, errors = level == _ROOT or embedded, []
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        actual = (properties.get(name) or {}).get("type", "")
        if whole and name in properties and actual != kind:
            errors.append(invalid(path.child("properties").key(name).child("type"), actual, f"must be {kind}"))
    if level == _ROOT and "metadata" in properties and _restricts_more(properties["metadata"]):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden(path.child("properties").key("metadata"), text))
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(path.child("properties"), text))
    return errors


def set_fields(schema: Obj) -> set[str]:
    """Return the fields with another value than their zero. An empty schema counts as a value, as does what a pointer
    points to."""
    return {
        name
        for name, value in schema.items()
        if (value not in (None, "") or (value == "" and name in ("$ref", *_POINTERS)))
        and (value is not False or name == "additionalProperties")
    }


def _restricts_more(metadata: Obj) -> bool:
    names = set(metadata.get("properties") or {})
    fields = set_fields(metadata) | (set(getattr(metadata, "empty", ())) - _SAME_WHEN_EMPTY)
    return bool(fields - {*_METADATA, *(["properties"] if names <= {"name", "generateName"} else [])})


def _logic(schema: Obj, path: Path, *, outside: bool = False) -> Errors:
    """Check allOf, anyOf, oneOf, not and the pattern. `outside` may spell out `x-kubernetes-int-or-string`."""
    clauses, errors = {name: schema.get(name) or [] for name in ("anyOf", "allOf", "oneOf")}, []
    spelt = outside and _is_int_or_string(clauses["anyOf"])
    for name, parts in clauses.items():
        for i, part in enumerate(parts if not (spelt and name == "anyOf") else ()):
            both = outside and name == "allOf" and i == 0 and _is_int_or_string(part.get("anyOf") or [])
            errors += _clause({**part, "anyOf": []} if both else part, path.child(name).index(i))
    if schema.get("not") is not None:
        errors += _clause(schema["not"], path.child("not"))
    return errors + (_pattern(schema["pattern"], path.child("pattern")) if schema.get("pattern") else [])


def _is_int_or_string(parts: list[Obj]) -> bool:
    """Report whether clauses spell out `x-kubernetes-int-or-string`; `additionalProperties: false` says nothing."""
    clauses = [{k: v for k, v in part.items() if k != "additionalProperties" or v is not False} for part in parts]
    return clauses == _INT_OR_STRING


def _pattern(pattern: str, path: Path) -> Errors:
    from understudy.machinery.golang.regexp import PatternError, compile_pattern  # here, since most schemas have none

    try:
        compile_pattern(pattern)
    except PatternError as why:
        return [invalid(path, pattern, f"must be a valid regular expression, but isn't: {why}")]
    return []


def _clause(schema: Obj, path: Path) -> Errors:
    errors = _logic(schema, path)
    if isinstance(schema.get("items"), dict):
        errors += _clause(schema["items"], path.child("items"))
    for name, part in (schema.get("properties") or {}).items():
        errors += _clause(part, path.child("properties").key(name))
    if schema.get("type"):
        errors.append(forbidden(path.child("type"), "must be empty to be structural"))
    if schema.get("additionalProperties") not in (None, False):
        errors.append(forbidden(path.child("additionalProperties"), "must be undefined to be structural"))
    for name, text in _NOT_IN_LOGIC:
        value = schema.get(name)
        if value is not None if name in _POINTERS else value:
            errors.append(forbidden(path.child(name), f"must be {text} to be structural"))
    if "metadata" in (schema.get("properties") or {}):
        where = path.child("properties").key("metadata")
        errors.append(forbidden(where, "must not be specified in a nested context"))
    return errors


def _complete(logic: Obj, schema: Obj, path: Path, where: Path) -> Errors:
    """Check that the schema at `path` describes all fields that the clauses of `logic` at `where` are about."""
    errors: Errors = []
    if logic.get("not") is not None:
        errors += _complete_clause(logic["not"], schema, path, where.child("not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for i, part in enumerate(logic.get(name) or ()):
            errors += _complete_clause(part, schema, path, where.child(name).index(i))
    return errors


def _complete_clause(logic: Obj, schema: Obj | None, path: Path, where: Path) -> Errors:
    if schema is None:
        return [required(path, f"because it is defined in {where}")]
    errors = _complete(logic, schema, path, where)
    if isinstance(logic.get("items"), dict):
        errors += _complete_clause(logic["items"], schema.get("items"), path.child("items"), where.child("items"))
    for name, part in (logic.get("properties") or {}).items():
        field = (schema.get("properties") or {}).get(name)
        errors += _complete_clause(part, field, path.child("properties").key(name), where.child("properties").key(name))
    return errors
