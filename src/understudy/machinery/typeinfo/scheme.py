"""Kinds that a body may name: whether they are registered, and whether they convert to the kind that is expected.

The real server decodes a body into the Go type of the kind that it names, in any API group, and then converts it by way
of the internal type. It keeps three registries of types (`runtime.Scheme`), which its errors name: one for nearly
everything, and one each for the servers of custom resource definitions and of API services.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas, Struct
from understudy.machinery.typeinfo.unserved import served_as, unserved
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

_OWN = {"apiextensions.k8s.io": "apiextensions", "apiregistration.k8s.io": "aggregator"}  # {API group: its scheme}
_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_META_KINDS = frozenset(
    (
        "GetOptions",
        "ListOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "PatchOptions",
        "Table",
        "WatchEvent",
    )
)
_DELETE_OPTIONS = GroupVersionKind("meta.k8s.io", "v1", "DeleteOptions")
_UNVERSIONED = frozenset(("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"))
_META_KINDS_OF_ANY_VERSION = _UNVERSIONED | {"CreateOptions", "UpdateOptions"}


def gvk_with_defaults(api_version: str, kind: str, default: GroupVersionKind) -> GroupVersionKind:
    """Return the kind that a body names, with the missing parts taken from `default` (upstream: `gvkWithDefaults`).
    Raises DecodeError."""
    if api_version.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    group, version = split_api_version(api_version)
    if not version and group in ("", default.group):
        group, version = default.group, default.version
    return GroupVersionKind(group, version, kind or default.kind)


def decode_registered(
    schemas: Schemas,
    gvk: GroupVersionKind,
    expected: GroupVersionKind,
    decode: Callable[[Struct], tuple[Obj, list[str]]],
    text: Callable[[], str],
) -> tuple[Obj, list[str]]:
    """Decode an object as the kind that it names, which must convert to the expected kind. Raises DecodeError.

    Returns the object and its strict errors, as `decode` returns them for a type. `text` returns the text of the
    object, for error messages.
    """
    if gvk == expected:
        return decode(schemas.kind(*expected))
    if not gvk.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{text()}'")
    struct = registered(schemas, gvk, expected.group)
    result = decode(struct)
    hub = served_as(schemas, gvk)._replace(version=INTERNAL)
    internal = schemas.kind(expected.group, INTERNAL, expected.kind)
    if not schemas.has_kind(*hub) or schemas.kind(*hub) is not internal:
        raise unknown_conversion(struct, internal)
    return result


@cache
def scheme_name(version: Version, scheme: str) -> str:
    """Return the name of a scheme, which is the line of upstream's source that makes it (`runtime.Scheme.Name`).

    scheme  "legacyscheme", "apiextensions", "aggregator", "webhook", "internalversion" for options of requests,
            "client" for answers to reviews, "exec" for credentials that a command prints; for files "admission",
            "webhookadmission", "policyconfig",
            "webhookmanifest", "policymanifest", and those named after the plugin that reads them
    """
    name: str = read_release_file(version, "release.json")["schemes"][scheme]
    return name


def registered(schemas: Schemas, gvk: GroupVersionKind, server: str) -> Struct:
    """Return the type of a kind in the scheme of the server of an API group. Raises DecodeError if it has none."""
    struct = _registered(schemas, gvk, server)
    if struct is None:
        raise not_registered(gvk, scheme_name(schemas.version, _OWN.get(server, "legacyscheme")))
    return struct


def known_to_clients(schemas: Schemas, gvk: GroupVersionKind) -> Struct:
    """Return the type of a kind in the scheme of client-go, which has every kind. Raises DecodeError if it has not."""
    struct = _registered(schemas, gvk, "")
    if struct is None:
        raise not_registered(gvk, scheme_name(schemas.version, "client"))
    return struct


def _registered(schemas: Schemas, gvk: GroupVersionKind, server: str) -> Struct | None:
    """Return the type of a kind in the scheme of the server of an API group, None if it is not registered there."""
    if gvk.kind in _UNVERSIONED:
        return schemas.kind("", "v1", gvk.kind)
    if gvk.group in _OWN.keys() - {server}:
        return None
    if not schemas.has_kind(*gvk):
        served = served_as(schemas, gvk)
        is_known = served != gvk and (server not in _OWN or gvk.group == server)
        return unserved(schemas, gvk, served) if is_known else None
    struct = schemas.kind(*gvk)
    everywhere = gvk.group == "" and struct.name.startswith("k8s.io/apimachinery/")
    return struct if server not in _OWN or gvk.group == server or everywhere else None


def not_registered(gvk: GroupVersionKind, scheme: str) -> DecodeError:
    """Return the error for a kind that a scheme does not know. Upstream: `NewNotRegisteredErrForKind`."""
    version = f"version {go_quote(gvk.api_version)}"
    if gvk.version == INTERNAL:
        version = f"the internal version of group {go_quote(gvk.group)}"
    return DecodeError(f'no kind {go_quote(gvk.kind)} is registered for {version} in scheme "{scheme}"')


def unknown_conversion(source: Struct, target: Struct) -> DecodeError:
    """Return the error for an object whose type does not convert to another one."""
    return DecodeError(f"converting ({source.go}) to ({target.go}): unknown conversion")


def decode_delete_options(
    schemas: Schemas, api_version: str, kind: str, decode: Callable[[Struct], Obj], text: Callable[[], str]
) -> Obj:
    """Decode the body of a DELETE, whose scheme only knows kinds of meta/v1. Raises DecodeError.

    DeleteOptions of any version are accepted, and a body need not name its kind. `text` returns the text of the body,
    for error messages.
    """
    gvk = gvk_with_defaults(api_version, kind, _DELETE_OPTIONS)
    if not gvk.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{text()}'")
    struct_name = f"{_META}.{gvk.kind}"
    if gvk.kind == _DELETE_OPTIONS.kind:
        return decode(schemas.struct(struct_name))
    in_meta = gvk.api_version == _DELETE_OPTIONS.api_version and gvk.kind in _META_KINDS
    if not in_meta and gvk.kind not in _META_KINDS_OF_ANY_VERSION:
        raise not_registered(gvk, scheme_name(schemas.version, "internalversion"))
    struct = schemas.struct(struct_name)
    decode(struct)
    raise unknown_conversion(struct, schemas.struct(f"{_META}.DeleteOptions"))
