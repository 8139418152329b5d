"""Validation of opaque parameters for a driver, in claims, classes and allocation results."""

from __future__ import annotations

from typing import Any

from understudy.admission.validation.resource import identifiers
from understudy.admission.validation.resource.release_rules import Limits
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required, too_long

_OMITTED_VALUE = "<value omitted>"


def validate(config: Obj, path: Path, limits: Limits) -> Errors:
    """Check a configuration (upstream: `validateDeviceConfiguration`), `{"opaque": {"driver": …, "parameters": …}}`."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(path.child("opaque"))]
    here = path.child("opaque")
    return [
        *identifiers.driver(opaque.get("driver", ""), here.child("driver")),
        *raw_object(opaque.get("parameters"), here.child("parameters"), limits),
    ]


def raw_object(value: Any, path: Path, limits: Limits) -> Errors:
    """Check a JSON object of any content that is not too long (upstream: `validateRawExtension`)."""
    if value is None:
        return [required(path)]
    length = len(value.source if isinstance(value, Raw) else encode(value))
    if limits.opaque_length is not None and length > limits.opaque_length:
        return [too_long(path, limits.opaque_length)]
    return [] if isinstance(value, dict) else [invalid(path, _OMITTED_VALUE, "parameters must be a valid JSON object")]
