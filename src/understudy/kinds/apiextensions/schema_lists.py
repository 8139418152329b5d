"""Validation of x-kubernetes-list-type, -list-map-keys and -map-type: how lists and maps are merged."""

from __future__ import annotations

from collections.abc import Callable

from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

_GO = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"


def validate(schema: Obj, path: Path) -> Errors:
    """Check one schema, without those inside of it."""
    errors = _typed(schema, "x-kubernetes-map-type", "object", ("atomic", "granular"), path)
    errors += _typed(schema, "x-kubernetes-list-type", "array", ("atomic", "set", "map"), path, _set_items)
    return errors + _map_keys(schema, path) + _key_properties(schema, path)


def _typed(
    schema: Obj,
    name: str,
    kind: str,
    allowed: tuple[str, ...],
    path: Path,
    more: Callable[[Obj, Path], Errors] = lambda schema, path: [],
) -> Errors:
    """Check an extension that goes with one type; where the type is right, `more` checks the rest."""
    value, actual = schema.get(name), schema.get("type", "")
    if value is None:
        return []
    where, text = path.child("type"), f"must be {kind} if {name} is specified"
    if actual != kind:
        errors = [invalid(where, actual, text) if actual else required(where, text)]
    else:
        errors = more(schema, path)
    return errors + ([] if value in allowed else [not_supported(path.child(name), value, allowed)])


def _set_items(schema: Obj, path: Path) -> Errors:
    """Check that the items of a set are scalars or atomic."""
    items = schema.get("items")
    if schema.get("x-kubernetes-list-type") != "set" or not isinstance(items, dict):
        return []
    text, own = "must be atomic as item of a list with x-kubernetes-list-type=set", items.get("x-kubernetes-list-type")
    path = path.child("items")
    if items.get("type") == "array" and own not in (None, "atomic"):
        return [invalid(path.child("x-kubernetes-list-type"), own, text)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [invalid(path.child("x-kubernetes-map-type"), own, text)]  # upstream shows the other extension
    return []


def _map_keys(schema: Obj, path: Path) -> Errors:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    where, own = path.child("x-kubernetes-list-map-keys"), path.child("x-kubernetes-list-type")
    text = "must be map if x-kubernetes-list-map-keys is non-empty"
    if kind != "map":
        if not keys:
            return []
        return [required(own, text)] if kind is None else [invalid(own, kind, text)]
    errors = [] if keys else [required(where, "must not be empty if x-kubernetes-list-type is map")]
    items, inside = schema.get("items"), path.child("items")
    if items is None:
        return [*errors, required(inside, "must have a schema if x-kubernetes-list-type is map")]
    if isinstance(items, list):
        bad_value = Typed(items, f"{_GO}.JSONSchemaPropsOrArray")
        text = "must only have a single schema if x-kubernetes-list-type is map"
        return [*errors, invalid(inside, bad_value, text)]
    if items.get("type", "") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*errors, invalid(inside.child("type"), items.get("type", ""), text)]
    return errors + _keys(keys, items, inside, where)


def _keys(keys: list[str], items: Obj, path: Path, where: Path) -> Errors:
    errors: Errors = []
    bad_value = Typed(keys, "[]string")
    for i, key in enumerate(keys):
        key_schema = (items.get("properties") or {}).get(key)
        if key_schema is None:
            errors.append(invalid(where, bad_value, "entries must all be names of item properties"))
        elif key_schema.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid(path.child("properties").key(key).child("type"), "object", text))
        if key in keys[:i]:
            errors.append(invalid(where, bad_value, "must not contain duplicate entries"))
    return errors


def _key_properties(schema: Obj, path: Path) -> Errors:
    """Check that items of sets and maps are not null, and that keys of maps are required or have defaults."""
    kind, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if kind not in ("set", "map") or not isinstance(items, dict):
        return []
    path = path.child("items")
    errors: Errors = []
    if items.get("nullable"):
        errors.append(forbidden(path.child("nullable"), f"cannot be nullable when x-kubernetes-list-type is {kind}"))
    keys = (schema.get("x-kubernetes-list-map-keys") or []) if kind == "map" else []
    this = "this property is in x-kubernetes-list-map-keys, so it"
    for key in keys:
        key_schema, where = (items.get("properties") or {}).get(key), path.child("properties").key(key)
        if key_schema is None:
            continue
        if key not in (items.get("required") or ()) and key_schema.get("default") is None:
            errors.append(required(where.child("default"), f"{this} must have a default or be a required property"))
        if key_schema.get("nullable"):
            errors.append(forbidden(where.child("nullable"), f"{this} cannot be nullable"))
    return errors
