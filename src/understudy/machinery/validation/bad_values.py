"""Values in error texts, printed as the real server prints its internal Go values (see `apiserver.godump`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from understudy.machinery.golang.text import Printed, go_quote, go_value
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

OWNER_REFERENCE = "k8s.io/apimachinery/pkg/apis/meta/v1.OwnerReference"


def struct(value: Any, name: str, release: Version) -> Printed:
    """A value of a Go type by its full name: a struct, a list of structs ("[]…")."""
    from understudy.machinery.typeinfo.schema import Schemas
    from understudy.machinery.validation.dump import dump  # here, since only errors need it

    return dump(value, name, Schemas.of(release))


def field(obj: Obj, key: str, name: str, release: Version) -> Printed:
    """A list in a decoded object: what was sent as an empty one is no nil."""
    value = obj.get(key)
    if value is None and key in getattr(obj, "empty", ()):
        value = []
    return struct(value, name, release)


def difference(before: Any, found: Any, name: str, release: Version) -> str:
    """How a stored value of a Go type is about to change (see `apiserver.godiff`)."""
    from understudy.machinery.golang.json_writer import encode
    from understudy.machinery.typeinfo.schema import Schemas
    from understudy.machinery.validation.diff import diff

    stored = json.loads(encode(before))  # of empty lists, those that are stored are nil
    return diff(stored, found, name, Schemas.of(release))


def untyped(value: Any) -> Any:
    """A JSON value that has no Go type."""
    match value:
        case dict():
            fields = (f"{go_quote(key)}:{_inside(item)}" for key, item in sorted(value.items()))
            return Printed(f"map[string]interface {{}}{{{', '.join(fields)}}}")
        case list():
            return Printed(f"[]interface {{}}{{{', '.join(map(_inside, value))}}}")
        case int() if not -(2**63) <= value < 2**63:  # no int64, so Go takes it for a float64
            return float(value)
    return value


def _inside(value: Any) -> str:
    return "interface {}(nil)" if value is None else go_value(untyped(value))


def strings(values: Sequence[str]) -> str:
    """A list of strings in Go syntax."""
    return f"[]string{{{', '.join(go_quote(value) for value in values)}}}"


def octets(value: bytes | None) -> Printed:
    """A list of bytes in Go syntax."""
    return Printed("[]byte(nil)" if value is None else f"[]byte{{{', '.join(f'0x{byte:x}' for byte in value)}}}")
