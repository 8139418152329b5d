"""The body of an apply request: YAML, which most clients write as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.machinery.errors import bad_request
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.serializer.json import DecodeError, yaml_to_json
from understudy.machinery.types import Obj

_DUPLICATES = "yaml: unmarshal errors:\n  "


@dataclass(frozen=True, slots=True)
class Patch:
    """A parsed apply request.

    Duplicate keys (`line 7: key "yaml" already set in map`) are `warnings` by default; with strict field validation
    they are `duplicates`, for `FieldManager.apply` to refuse; with fieldValidation=Ignore they are dropped.
    """

    obj: Obj
    warnings: list[str]
    duplicates: list[str]


def parse(body: bytes, validation: str = "Warn") -> Patch:
    """Parse an apply request. `validation` is the request's fieldValidation. Raises StatusError 400."""
    try:
        value, duplicates = _value(body)
    except DecodeError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        unusable = f"json: cannot unmarshal {bodies.kind_of(value)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {unusable}")
    return Patch(value or {}, duplicates if validation == "Warn" else [], duplicates if validation == "Strict" else [])


def _value(body: bytes) -> tuple[Any, list[str]]:
    try:
        return _read_json(body.decode()), []
    except (ValueError, RecursionError):
        converted, strict = yaml_to_json(body)
        lines = [line for text in strict for line in text.removeprefix(_DUPLICATES).split("\n  ")]
        return bodies.loads(converted, bodies.yaml_number)[0], lines


_read_json = bodies.decoder(bodies.yaml_number)

__all__ = ["Patch", "parse"]
