"""Conversion of objects between the versions of a kind and its internal form (upstream: `runtime.ObjectConvertor`)."""

from __future__ import annotations

from understudy.kinds.declarations.kind import Kind
from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.types import Obj


def typed(kind: Kind, version: str, obj: Obj) -> Obj:
    """Return an object, which is in the form of a version already, with its kind and apiVersion in front."""
    return keep_empty_fields(obj, {"kind": kind.name, "apiVersion": kind.gvk(version).api_version, **obj})


def to_internal(kind: Kind, version: str, obj: Obj) -> Obj:
    """Convert an object of a version, with or without kind and apiVersion, to the internal form, which has neither.

    Custom resources have no internal form: their rules work on the version of the request.
    """
    if kind.custom is not None:
        return dict(obj)
    conversion = kind.behavior.conversions.get(version)
    return conversion.to_internal(bare(obj)) if conversion else bare(obj)


def into_internal(kind: Kind, version: str, obj: Obj, existing: Obj) -> Obj:
    """Convert an object of a version into an internal one that exists, and return it as a new object.

    Fields of the existing object that the version does not have are kept.
    """
    conversion = kind.behavior.conversions.get(version)
    if conversion is None or conversion.into is None:
        return to_internal(kind, version, obj)
    return conversion.into(bare(obj), existing)


def from_internal(kind: Kind, version: str, obj: Obj) -> Obj:
    """Convert an internal object to a version, with kind and apiVersion."""
    if kind.custom is not None:
        return obj
    conversion = kind.behavior.conversions.get(version)
    return typed(kind, version, conversion.from_internal(obj) if conversion else obj)


def stored(kind: Kind, obj: Obj) -> Obj:
    """Return an internal object in the form in which it is stored."""
    return obj if kind.custom is None else kind.custom.store(obj)


def bare(obj: Obj) -> Obj:
    """Return an object without kind and apiVersion, as list items are encoded."""
    return keep_empty_fields(obj, {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")})
