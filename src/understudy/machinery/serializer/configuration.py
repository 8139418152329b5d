"""Files that name their kind: configurations, whose Go types are described as in `types.json`, and manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import Raw, encode
from understudy.machinery.releases.version import V1_31
from understudy.machinery.serializer.json import decode_parsed, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import gvk_with_defaults, not_registered
from understudy.machinery.types import GroupVersionKind, Obj

_META = "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta"
TYPE_META = ["TypeMeta", "", "i", _META, 0]  # what every type of a file begins with
NO_KIND = GroupVersionKind("", "", "")
RAW = "k8s.io/apimachinery/pkg/runtime.RawExtension"
TIME = "k8s.io/apimachinery/pkg/apis/meta/v1.Time"


class UnnamedKindError(DecodeError):
    """A text that does not name its kind and version, or names one that is not known where it is read."""


class ConfigurationTypes(Schemas):
    """Some Go types that no OpenAPI document describes.

    kinds    {"GROUP/VERSION/KIND": full name of the type}
    structs  {full name: its fields as in `types.json`}
    scalars  {full name of a type: the one that it is}
    """

    def __init__(
        self,
        kinds: Mapping[str, str],
        structs: Mapping[str, list[list[Any]]],
        scalars: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        type_meta = [["Kind", "kind", "o", "string", 1], ["APIVersion", "apiVersion", "o", "string", 2]]
        super().__init__(V1_31)  # releases differ in errors about inlined fields, of which these types have no others
        self._types = {
            "kinds": kinds,
            "structs": {_META: type_meta, **structs},
            "scalars": scalars,
            "custom": [RAW, TIME],
        }

    def openapi_of(self, name: str) -> dict[str, Any]:
        return {}

    def find(self, kind: GroupVersionKind) -> Struct | None:
        """Return the type of a kind, None if it is not among these."""
        return self.kind(*kind) if self.has_kind(*kind) else None


def raw_bytes(value: Any) -> bytes:
    """Return the bytes of a decoded RawExtension, none for null."""
    if value is None:
        return b""
    return value.source if isinstance(value, Raw) else encode(value)


def decode_named(
    data: bytes,
    find: Callable[[GroupVersionKind], Struct | None],
    scheme: str,
    *,
    strict: bool = True,
    default: GroupVersionKind | None = None,
) -> tuple[Struct, Obj]:
    """Decode YAML or JSON as the type that it names. Returns the type and the object.

    Raises DecodeError, and UnnamedKindError if `find` returns None for its kind. Upstream: the decoders of a
    `CodecFactory`.

    scheme  name of the registry of types, after the line that makes it, for error messages
    strict  whether unknown and duplicate fields are errors (`EnableStrict`)
    default is the kind of a text that does not name its own (`DecodeInto`), None where each has to
    """
    json, twice = (data, []) if data.lstrip().startswith(b"{") else yaml_to_json(data)
    parsed = parse_json(json)
    api_version, kind = read_type_meta(parsed)
    for name, value in (("Kind", kind), ("apiVersion", api_version)):
        if not value and default is None:
            raise UnnamedKindError(f"Object '{name}' is missing in '{data.decode('utf-8', 'replace')}'")
    gvk = gvk_with_defaults(api_version, kind, default or NO_KIND)
    struct = find(gvk)
    if struct is None:
        raise UnnamedKindError(str(not_registered(gvk, scheme)))
    obj, errors = decode_parsed(parsed, struct)
    if strict and (twice or errors):
        raise DecodeError(f"strict decoding error: {', '.join(twice + errors)}")
    return struct, obj
