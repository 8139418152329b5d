"""Validation of the schemas of custom resources. `structural_schemas` checks whether they are structural."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from understudy.kinds.apiextensions import schema_defaults, schema_lists, schema_rules, structural_schemas
from understudy.kinds.apiextensions.schema_rules import KnownRules
from understudy.kinds.common.formats import choice, message, of_field
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required
from understudy.machinery.validation.schema_paths import SchemaPathError, at_path

TYPES = ("array", "boolean", "integer", "number", "object", "string")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_GO = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
_META = ("metadata", "kind", "apiVersion")
_LISTS, _MAPS = ("allOf", "oneOf", "anyOf"), ("properties", "patternProperties", "definitions")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_POINTERS = ("additionalItems", "$ref")  # unsupported fields that are errors even if they are empty
# Fields that the root schema may have together with a status subresource, with the names of their Go fields.
_ROOT = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_BEFORE_TYPE = ("id", "$schema", "$ref")


def validate(schema: Obj, path: Path, has_status: bool, version: str, known: KnownRules) -> Errors:
    """Check the whole schema of a version; `path` is the path of the field that holds it.

    version  the name of the version, the first one of those that share the schema
    """
    where = path.child("openAPIV3Schema")
    errors = _root(schema, where) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(where.child("nullable"), "nullable cannot be true at the root"))
    unfit = structural_schemas.unfit(schema)
    not_structural: Errors = []
    if not unfit:
        not_structural = structural_schemas.validate(schema, where) or schema_defaults.validate(
            schema, where, known.version
        )
    others = _Checker().check(schema, where, _Place(root=True))
    errors += not_structural + others
    if not unfit and not not_structural:
        errors += schema_rules.validate(schema, where, version, known, others)
    return errors or ([invalid(where, "", unfit)] if unfit else [])


def _root(schema: Obj, path: Path) -> Errors:
    """Check the root of a schema, and report only the first error."""
    fields = structural_schemas.set_fields(schema)
    kind = schema.get("type")
    if kind and kind != "object" and fields.isdisjoint(_BEFORE_TYPE):
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(path.child("type"), kind, text)]
    if set(_ROOT) >= {*fields, *getattr(schema, "empty", ())}:
        return []
    listed = " ".join(_ROOT.values())
    text = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
    return [invalid(path, Typed(schema, f"{_GO}.JSONSchemaProps"), text)]


def within(schema: Obj) -> Iterator[Obj]:
    """Yield a schema and all schemas inside of it."""
    yield schema
    for part in _parts(schema):
        yield from within(part)


def _parts(schema: Obj) -> Iterator[Obj]:
    for name in _LISTS:
        yield from schema.get(name) or ()
    for name in _MAPS:
        yield from (schema.get(name) or {}).values()
    items = schema.get("items")
    yield from items if isinstance(items, list) else [items] if items else []
    others = [schema.get(name) for name in ("not", "additionalProperties", "additionalItems")]
    others += (schema.get("dependencies") or {}).values()
    yield from (other for other in others if isinstance(other, dict))


def has_defaults(schema: Obj) -> bool:
    """Report whether a schema or a schema within it has a default."""
    return any(part.get("default") is not None for part in within(schema))


@dataclass(frozen=True)
class _Place:
    """The place of a schema: at the root, inside of metadata; `no_defaults` says why no default may be there."""

    root: bool = False
    meta: bool = False
    no_defaults: str = ""

    def of_meta(self, name: str) -> _Place:
        """Return the place of a field that every object has."""
        why = f"in top-level {name}" if self.root else self.no_defaults
        return _Place(meta=True, no_defaults=why)

    def of_others(self) -> _Place:
        """Return the place of additional properties."""
        why = "inside additionalProperties applying to object metadata" if self.meta else self.no_defaults
        return _Place(meta=self.meta, no_defaults=why)


class _Checker:
    """The check of everything but structure, of a schema and those inside of it."""

    def check(self, schema: Obj | None, path: Path, place: _Place) -> Errors:
        """Check a schema and those inside of it; None has nothing wrong."""
        if schema is None:
            return []
        inner = replace(place, root=False)
        errors = _own(schema, path, place)
        if schema.get("uniqueItems"):
            text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            errors.append(forbidden(path.child("uniqueItems"), text))
        errors += self._properties(schema, path, place)
        errors += self.check(schema.get("not"), path.child("not"), inner)
        for name in _LISTS:
            for i, part in enumerate(schema.get(name) or ()):
                errors += self.check(part, path.child(name).index(i), inner)
        for name, part in (schema.get("definitions") or {}).items():
            errors += self.check(part, path.child("definitions").key(name), inner)
        errors += self._items(schema, path, inner)
        for name, part in (schema.get("dependencies") or {}).items():
            errors += self.check(part if isinstance(part, dict) else None, path.child("dependencies").key(name), inner)
        return errors + self._extensions(schema, path)

    def _properties(self, schema: Obj, path: Path, place: _Place) -> Errors:
        others, properties = schema.get("additionalProperties"), schema.get("properties") or {}
        whole = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
        errors: Errors = []
        if others is not None:
            where = path.child("additionalProperties")
            if properties and others is not True:
                errors.append(forbidden(where, "additionalProperties and properties are mutual exclusive"))
            errors += self.check(others if isinstance(others, dict) else None, where, place.of_others())
        for name, part in properties.items():
            inner = place.of_meta(name) if whole and name in _META else replace(place, root=False)
            errors += self.check(part, path.child("properties").key(name), inner)
        return errors

    def _items(self, schema: Obj, path: Path, inner: _Place) -> Errors:
        items, where = schema.get("items"), path.child("items")
        if not isinstance(items, list):
            return self.check(items, where, inner)
        return [error for i, part in enumerate(items) for error in self.check(part, where.index(i), inner)]

    def _extensions(self, schema: Obj, path: Path) -> Errors:
        errors: Errors = []
        if schema.get("x-kubernetes-preserve-unknown-fields") is False:
            where = path.child("x-kubernetes-preserve-unknown-fields")
            errors.append(invalid(where, False, "must be true or undefined"))
        errors += schema_lists.validate(schema, path)
        for i, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
            errors += _rule(rule, schema, path.child("x-kubernetes-validations").index(i))
        return errors


def _own(schema: Obj, path: Path, place: _Place) -> Errors:
    """Check that a schema has nothing that custom resources do not support."""
    kind = schema.get("type", "")
    errors = [not_supported(path.child("type"), kind, TYPES)] if kind and kind not in TYPES else []
    if schema.get("default") is not None and place.no_defaults:
        errors.append(forbidden(path.child("default"), f"must not be set {place.no_defaults}"))
    present = [n for n in _UNSUPPORTED if schema.get(n) or (n in _POINTERS and schema.get(n) is not None)]
    if was_sent_empty(schema, "dependencies"):
        present.append("dependencies")
    errors += [forbidden(path.child(name), f"{name} is not supported") for name in present]
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(path.child("type"), text))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(path.child("items"), "items must be a schema object and not an array"))
    if place.meta and schema.get("x-kubernetes-embedded-resource"):
        where = path.child("x-kubernetes-embedded-resource")
        errors.append(forbidden(where, "must not be used inside of resource meta"))
    return errors


def _rule(rule: Obj, schema: Obj, path: Path) -> Errors:
    """Check a rule of x-kubernetes-validations apart from its CEL."""
    text, message_text, message_expression = (rule.get(name, "") for name in ("rule", "message", "messageExpression"))
    errors: Errors = []
    if not text.strip():
        errors.append(required(path.child("rule"), "rule is not specified"))
    elif wrong := message(message_text, path.child("message")):
        errors += wrong
    elif _broken(text.strip()) and not message_text:
        needed = "message must be specified if rule contains line breaks"
        errors.append(required(path.child("message"), needed))
    if message_expression and not message_expression.strip():
        needed = "messageExpression must be non-empty if specified"
        errors.append(required(path.child("messageExpression"), needed))
    reason = rule.get("reason")
    errors += [] if reason is None else choice(reason, REASONS, path.child("reason"))
    return errors + _field_path(rule.get("fieldPath", ""), schema, path.child("fieldPath"))


def _broken(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _field_path(field: str, schema: Obj, path: Path) -> Errors:
    if not field:
        return []
    errors = [] if field.strip() else [invalid(path, field, of_field("fieldPath", "must be non-empty if specified"))]
    if _broken(field):
        errors.append(invalid(path, field, of_field("fieldPath", "must not contain line breaks")))
    try:
        at_path(schema, field, brackets=True)
    except SchemaPathError:
        if not structural_schemas.unfit(schema):
            errors.append(invalid(path, field, of_field("fieldPath", "must be a valid path")))
    return errors
