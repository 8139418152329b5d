"""Validation of defaults in the schemas of custom resources: each fits its schema and has known fields only."""

from __future__ import annotations

from typing import Any

from understudy.admission.validation.apiextensions import schema_values
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease, Untyped
from understudy.machinery.validation.field import Errors, Path, invalid, required

_EMPTY = TextByRelease(ByRelease({V1_34: "", V1_31: "must not be empty"}))
_META = ("apiVersion", "kind", "metadata")


def validate(schema: Obj, path: Path, *, root: bool = True) -> Errors:
    """Check the defaults of a whole structural schema."""
    errors, default = [], schema.get("default")
    if default is not None:
        where = path.child("default")
        if _pruned(default, schema) != default:
            errors.append(invalid(where, Untyped(default), "must not have unknown fields"))
        errors += _embedded(default, schema, where, root) or schema_values.validate(default, schema, where)
    if isinstance(schema.get("items"), dict):
        errors += validate(schema["items"], path.child("items"), root=False)
    for name, part in (schema.get("properties") or {}).items():
        errors += validate(part, path.child("properties").key(name), root=False)
    return errors


def _embedded(default: Any, schema: Obj, path: Path, root: bool) -> Errors:
    """Check the type and metadata of a default that is a whole object."""
    if not (root or schema.get("x-kubernetes-embedded-resource")) or not isinstance(default, dict):
        return []
    return [required(path.child(name), _EMPTY) for name in ("apiVersion", "kind") if not default.get(name)]


def _pruned(value: Any, schema: Obj | None) -> Any:
    """Return a value without the fields that its schema does not know."""
    schema = schema or {}
    if isinstance(value, list):
        return [_pruned(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or others is True
    known = _META if schema.get("x-kubernetes-embedded-resource") else ()
    out = {}
    for name, item in value.items():
        if name in properties or isinstance(others, dict):
            out[name] = _pruned(item, properties.get(name, others))
        elif open_ended or name in known:
            out[name] = item
    return out
