"""Validation of defaults in the schemas of custom resources: each fits its schema and has known fields only (upstream:
`apiserver/schema/defaulting`, `ValidateDefaults`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.kinds.apiextensions import embedded_resources
from understudy.kinds.apiextensions.structural_schema import values
from understudy.kinds.apiextensions.structural_schema.embedded import (
    Coercion,
    CoercionError,
    compile_coercion,
    compile_walk,
)
from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.kinds.apiextensions.structural_schema.pruning import META_FIELDS, Pruner
from understudy.kinds.apiextensions.structural_schema.schema import has_rules
from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Untyped
from understudy.machinery.validation.field import Errors, Path, invalid

_EMBEDDED = "x-kubernetes-embedded-resource"
_ITEM = None  # a step into a list


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a schema: the resource around it, the way to it from there, and whether that leads into metadata."""

    version: Version
    resource: Obj
    steps: tuple[str | None, ...] = ()
    inside_meta: bool = False

    def into(self, schema: Obj, step: str | None) -> _Place:
        """Return the place of a schema inside of `schema`, which is at this place."""
        meta = self.inside_meta or bool(schema.get(_EMBEDDED) and step in META_FIELDS)
        return replace(self, steps=(*self.steps, step), inside_meta=meta)

    def surround(self, value: Any) -> Obj:
        """Return a resource with this value at this place, and nothing else but a version and a kind."""
        for step in reversed(self.steps):
            value = [value] if step is _ITEM else {step: value}
        return {"kind": "Validation", "apiVersion": "validation/v1", **value}


def validate(schema: Obj, path: Path, version: Version) -> Errors:
    """Check the defaults of a whole structural schema."""
    root = {**schema, _EMBEDDED: True}
    return _validate(root, path, _Place(version, root))


def _validate(schema: Obj, path: Path, place: _Place) -> Errors:
    if schema.get(_EMBEDDED):
        place = _Place(place.version, schema)
    default, errors = with_go_numbers(schema.get("default")), []
    if default is not None:
        check = _in_metadata if place.inside_meta else _outside
        errors += check(default, schema, path.child("default"), place)
    if isinstance(schema.get("items"), dict):
        errors += _validate(schema["items"], path.child("items"), place.into(schema, _ITEM))
    for name, part in (schema.get("properties") or {}).items():
        errors += _validate(part, path.child("properties").key(name), place.into(schema, name))
    return errors


def _in_metadata(default: Any, schema: Obj, path: Path, place: _Place) -> Errors:
    """Check the default of a field of metadata, or of a version or kind, by the metadata that it results in."""
    texts = []
    try:
        resource = _coerce(place.surround(default), place.resource, Path(), place.version)
    except CoercionError as error:
        texts = [str(error)]
    else:
        errors = _embedded(resource, place.resource, Path(), place.version)
        texts = list(dict.fromkeys(error.text(place.version) for error in errors))
    if texts:
        return [invalid(path, Untyped(default), f"must result in valid metadata: {aggregate(texts)}")]
    return _values(default, schema, path, place.version)


def _outside(default: Any, schema: Obj, path: Path, place: _Place) -> Errors:
    """Check a default outside of metadata, which may be a whole resource itself. Errors show it with canonical
    metadata."""
    try:
        default, refused = _coerce(default, schema, path, place.version), None
    except CoercionError as error:
        refused = error.error
    errors: Errors = []
    if Pruner(schema, is_resource_root=bool(schema.get(_EMBEDDED))).prune(default) is not default:
        errors.append(invalid(path, Untyped(default), "must not have unknown fields"))
    wrong = [refused] if refused else _embedded(default, schema, path, place.version)
    return errors + (wrong or _values(default, schema, path, place.version))


def _coerce(value: Any, schema: Obj, path: Path, version: Version) -> Any:
    coerce = compile_coercion(schema)
    return value if coerce is None else coerce(value, path, Coercion(version, drop_invalid=False, unknown=None))


def _embedded(value: Any, schema: Obj, path: Path, version: Version) -> Errors:
    walk = compile_walk(schema)
    return [] if walk is None else embedded_resources.validate(walk(value, path), version)


def _values(default: Any, schema: Obj, path: Path, version: Version) -> Errors:
    errors = values.validate(values.compile_values(schema, version, structural=True), default, str(path))
    return errors or _rules(default, schema, path, version)


def _rules(default: Any, schema: Obj, path: Path, version: Version) -> Errors:
    """Check that a default keeps the CEL rules of its schema, both as a value that stays and as a new one."""
    if not has_rules(schema):
        return []
    from understudy.kinds.apiextensions.structural_schema.rules import compile_rules  # here, since CEL is large

    rules = compile_rules(schema, version, resource_root=bool(schema.get(_EMBEDDED)))
    assert rules is not None
    return rules.validate(default, default, path=path).errors or rules.validate(default, path=path).errors
