"""The body of an apply request: YAML, which most clients write as JSON."""

from __future__ import annotations

from typing import Any

from understudy.machinery.errors import bad_request
from understudy.machinery.golang.json_reader import to_text
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.releases.version import V1_31, V1_32, V1_37, ByRelease, Version
from understudy.machinery.serializer.cbor.decode import decode_any, decode_unstructured
from understudy.machinery.serializer.cbor.items import parse as parse_items
from understudy.machinery.serializer.json import DecodeError, yaml_to_json
from understudy.machinery.types import NamedTuple, Obj

_DUPLICATES = "yaml: unmarshal errors:\n  "


class Patch(NamedTuple):
    """A parsed apply request.

    Duplicate keys (`line 7: key "yaml" already set in map`) are `warnings` by default; with strict field validation
    they are `duplicates`, for `FieldManager.apply` to refuse; with fieldValidation=Ignore they are dropped. `what`
    is what errors call the body.
    """

    obj: Obj
    warnings: list[str]
    duplicates: list[str]
    what: str = "YAML"


_WHAT = ByRelease({V1_37: "patch", V1_31: "YAML"})


def check(body: bytes) -> None:
    """Raise 400 for a body that is no YAML. One that looks like JSON passes (`validateAndTranscodePatch`)."""
    if to_text(body).lstrip().startswith("{"):
        return
    try:
        yaml_to_json(body)
    except DecodeError as error:
        raise bad_request(f"error encoding patch: {error}") from None


def check_cbor(body: bytes, version: Version) -> None:
    """Raise 400 for a body that is no CBOR."""
    try:
        decode_any(parse_items(body, version))
    except DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None


def cbor_as_json(body: bytes, version: Version) -> bytes:
    """Return a body that `check_cbor` has let pass as JSON."""
    return encode_sorted(decode_any(parse_items(body, version)))


def as_json(body: bytes) -> bytes:
    """Return a body that `check` has let pass as JSON."""
    return body if to_text(body).lstrip().startswith("{") else yaml_to_json(body)[0]


def parse(body: bytes, validation: str = "Warn", version: Version = V1_31) -> Patch:
    """Parse an apply request. `validation` is the request's fieldValidation. Raises StatusError 400."""
    what = _WHAT[version]
    try:
        value, duplicates = _value(body)
    except DecodeError as error:
        raise bad_request(f"error decoding {what}: error converting YAML to JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        unusable = f"json: cannot unmarshal {bodies.kind_of(value)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding {what}: error unmarshaling JSON: while decoding JSON: {unusable}")
    warnings, refused = (duplicates if validation == each else [] for each in ("Warn", "Strict"))
    return Patch(value or {}, warnings, refused, what)


def parse_cbor(body: bytes, validation: str = "Warn", version: Version = V1_32) -> Patch:
    """Parse an apply request in CBOR, where duplicate keys are always an error. Raises StatusError 400."""
    what = _WHAT[version]
    try:
        return Patch(decode_unstructured(parse_items(body, version)) or {}, [], [], what)
    except DecodeError as error:
        raise bad_request(f"error decoding {what}: {error}") from None


def _value(body: bytes) -> tuple[Any, list[str]]:
    try:
        if rb"\/" in body:
            raise ValueError("an escape that YAML may not have")
        return _read_json(body.decode()), []
    except (ValueError, RecursionError):
        converted, strict = yaml_to_json(body)
        lines = [line for text in strict for line in text.removeprefix(_DUPLICATES).split("\n  ")]
        return bodies.loads(converted, bodies.yaml_number)[0], lines


_read_json = bodies.decoder(bodies.yaml_number)

__all__ = ["Patch", "as_json", "cbor_as_json", "check", "check_cbor", "parse", "parse_cbor"]
