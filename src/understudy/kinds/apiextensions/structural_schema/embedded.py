"""Embedded resources: their places in a value, and the coercion of their metadata (upstream:
`apiserver/schema/objectmeta`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import go_interface
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Untyped
from understudy.machinery.validation.field import FieldError, Path, invalid

Walk = Callable[[Any, Path], Iterator[tuple[Path, Obj]]]
Coerce = Callable[[Any, Path, "Coercion"], Any]


class CoercionError(DecodeError):
    """An embedded resource has a field of a wrong type. `error` says which."""

    def __init__(self, error: FieldError, version: Version) -> None:
        super().__init__(error.text(version))
        self.error = error


class Coercion:
    """One coercion: what becomes of wrong metadata, and the paths of its unknown fields.

    drop_invalid  fields of a wrong type are dropped, as from stored objects; else they are errors
    unknown       takes the paths, None if they are not needed
    """

    def __init__(self, version: Version, *, drop_invalid: bool, unknown: list[str] | None) -> None:
        self.version = version
        self.drop_invalid = drop_invalid
        self.unknown = unknown
        self._struct = Schemas.of(version).object_meta

    def metadata(self, value: Any, path: Path) -> Obj | None:
        """Return metadata in its canonical form, None if it is to be left as it is. Raises DecodeError (upstream:
        `GetObjectMetaWithOptions`)."""
        try:
            meta, strict = self._decoded(value)
        except DecodeError:
            if not self.drop_invalid:
                raise
            return self._valid_fields(value, path) if isinstance(value, dict) else None
        if self.unknown is not None:
            names = (text.removeprefix('unknown field "').removesuffix('"') for text in strict)
            self.unknown += [path.child("metadata", name).text for name in names]
        return {**meta}  # without its notes of empty lists: those are left out, not kept

    def _decoded(self, value: Any) -> tuple[Obj, list[str]]:
        """Decode metadata. Errors are those that fields in the order of their names have: Go writes them so before it
        reads them again. Raises DecodeError."""
        try:
            meta, strict = decode_value(value, self._struct)
        except DecodeError:
            return decode_value(go_interface(value), self._struct)
        return meta, decode_value(go_interface(value), self._struct)[1] if strict else strict

    def _valid_fields(self, value: Obj, path: Path) -> Obj:
        out: Obj = {}
        for name, item in value.items():
            try:
                out |= decode_value({name: item}, self._struct)[0]
            except DecodeError:
                continue
        return decode_value(out, self._struct)[0]

    def resource(self, value: Obj, path: Path) -> Obj:
        """Return an embedded resource with canonical metadata. Raises CoercionError."""
        out = dict(value)
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                if not self.drop_invalid:
                    self._refuse(path.child(name), value[name], "must be a string")
                del out[name]
        if "metadata" in value:
            try:
                meta = self.metadata(value["metadata"], path)
            except DecodeError as error:
                self._refuse(path.child("metadata"), value["metadata"], str(error))
            if meta is not None:
                out["metadata"] = {name: item for name, item in meta.items() if name != "creationTimestamp" or item}
        return value if out == value else out

    def _refuse(self, path: Path, value: Any, text: str) -> NoReturn:
        raise CoercionError(invalid(path, Untyped(value), text), self.version)


def compile_coercion(schema: Obj) -> Coerce | None:
    """Return the function that coerces the embedded resources within a value (upstream: `CoerceWithOptions`), None if
    there can be none. The function raises CoercionError."""
    parts = compile_properties(schema, compile_coercion)
    fields = {name: coerce for name, coerce in parts.items() if coerce is not None}
    others, items = (
        compile_coercion(part) if isinstance(part, dict) else None
        for part in (schema.get("additionalProperties"), schema.get("items"))
    )
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not fields and others is None and items is None and not embedded:
        return None

    def coerce(value: Any, path: Path, coercion: Coercion) -> Any:
        if isinstance(value, list) and items is not None:
            out = [items(item, path.index(i), coercion) for i, item in enumerate(value)]
            return out if any(new is not item for new, item in zip(out, value, strict=True)) else value
        if not isinstance(value, dict):
            return value
        coerced = coercion.resource(value, path) if embedded else value
        for name, item in value.items():
            if name in fields:
                new = fields[name](item, path.child(name), coercion)
            elif others is not None and name not in parts:
                new = others(item, path.key(name), coercion)
            else:
                continue
            if new is not item:
                coerced = dict(coerced) if coerced is value else coerced
                coerced[name] = new
        return coerced

    return coerce


def compile_walk(schema: Obj) -> Walk | None:
    """Return the function that yields the embedded resources within a value with their paths, the outer ones first.
    None if there can be none."""
    parts = compile_properties(schema, compile_walk)
    fields = {name: walk for name, walk in parts.items() if walk is not None}
    others, items = (
        compile_walk(part) if isinstance(part, dict) else None
        for part in (schema.get("additionalProperties"), schema.get("items"))
    )
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not fields and others is None and items is None and not embedded:
        return None

    def walk(value: Any, path: Path) -> Iterator[tuple[Path, Obj]]:
        if isinstance(value, list) and items is not None:
            for i, item in enumerate(value):
                yield from items(item, path.index(i))
        if not isinstance(value, dict):
            return
        if embedded:
            yield path, value
        for name, item in value.items():
            if name in fields:
                yield from fields[name](item, path.child(name))
            elif others is not None and name not in parts:
                yield from others(item, path.key(name))

    return walk
