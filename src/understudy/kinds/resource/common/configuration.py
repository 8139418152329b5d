"""Validation of opaque parameters for a driver, in claims, classes and allocation results."""

from __future__ import annotations

from typing import Any

from understudy.kinds.resource.common import identifiers
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required, too_long

_OMITTED_VALUE = "<value omitted>"


def validate(config: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check a configuration (upstream: `validateDeviceConfiguration`), `{"opaque": {"driver": …, "parameters": …}}`.

    stored  whether it is unchanged since it was stored: then its length is not checked
    """
    opaque = config.get("opaque")
    if opaque is None:
        return [required(path.child("opaque"))]
    here = path.child("opaque")
    return [
        *identifiers.driver(opaque.get("driver", ""), here.child("driver"), rules),
        *raw_object(opaque.get("parameters"), here.child("parameters"), rules, stored),
    ]


def raw_object(value: Any, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check a JSON object of any content (upstream: `validateRawExtension`); `stored`: its length is not checked."""
    if value is None:
        return [required(path)]
    length = len(value.source if isinstance(value, Raw) else encode(value))
    most = None if stored else rules.opaque_length
    if most is not None and length > most:
        return [too_long(path, most)]
    return [] if isinstance(value, dict) else [invalid(path, _OMITTED_VALUE, rules.raw_object)]
