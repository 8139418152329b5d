"""Validation of the resources embedded in custom ones: version, kind and metadata (upstream:
`apiserver/schema/objectmeta`)."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.kinds.common import objectmeta
from understudy.kinds.common.formats import kind as kind_errors
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease, Untyped
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import path_segment_name

_EMPTY = TextByRelease(ByRelease({V1_34: "", V1_31: "must not be empty"}))


def validate(resources: Iterable[tuple[Path, Obj]], version: Version) -> Errors:
    """Check embedded resources, given with their paths."""
    return [error for path, resource in resources for error in _resource(resource, path, version)]


def _resource(resource: Obj, path: Path, version: Version) -> Errors:
    errors = [required(path.child(name), _EMPTY) for name in ("apiVersion", "kind") if name not in resource]
    for name, value in resource.items():
        if name == "metadata":
            errors += _metadata(value, path.child(name), version)
        elif name in ("apiVersion", "kind"):
            errors += _type_meta(name, value, path.child(name))
    return errors


def _type_meta(name: str, value: object, path: Path) -> Errors:
    if not isinstance(value, str):
        return [invalid(path, Untyped(value), "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    if name == "kind":
        return kind_errors(value, path)
    return [invalid(path, value, f"unexpected GroupVersion string: {value}")] if value.count("/") > 1 else []


def _metadata(value: object, path: Path, version: Version) -> Errors:
    try:
        meta, _ = decode_value(value, Schemas.of(version).object_meta)
    except DecodeError as error:
        return [invalid(path, Untyped(value), str(error))]
    named = {**meta, "name": meta.get("name") or "fakename"}  # a name need not be given
    namespaced = bool(meta.get("namespace"))
    errors = objectmeta.validate(named, namespaced=namespaced, name=path_segment_name, path=path)
    return objectmeta.beside_declared_rules(errors, version)
