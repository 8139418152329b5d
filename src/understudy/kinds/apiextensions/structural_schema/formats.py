"""Formats in the schemas of custom resources: those that are not supported for a type are ignored (upstream:
`StripUnsupportedFormatsPostProcess`)."""

from __future__ import annotations

from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation import strfmt

# The formats of types that are no strings. Up to 1.35 formats of strings are supported for any type, and no others.
_BY_TYPE: ByRelease[dict[str, tuple[str, ...]]] = ByRelease(
    {
        V1_36: {
            "integer": ("int32", "int64"),
            "number": ("float", "double"),
            "boolean": (),
            "object": (),
            "array": (),
        },
        V1_31: {},
    }
)


def is_supported(name: str, kind: str, version: Version) -> bool:
    """Report whether a format is supported for a type; "" is a schema without one type."""
    formats = _BY_TYPE[version].get(kind)
    return name in formats if formats is not None else strfmt.format_of(name, version) is not None


def unrecognized(schema: Obj, version: Version) -> bool:
    """Report whether the server warns of the format of a schema (upstream: `GetUnrecognizedFormats`)."""
    name, kind = schema.get("format"), schema.get("type") or ""
    if not name or (kind != "string" and not _BY_TYPE[version]):
        return False
    return not is_supported(name, kind, version)
