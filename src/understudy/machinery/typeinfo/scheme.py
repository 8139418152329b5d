"""What an object says it is: whether the server knows that kind, and whether it can become the one that is wanted.

The real server decodes into whatever a body names, in any API group, and converts afterwards, from one Go type to
another by way of their internal form. It keeps three registries of types ("schemes"), which its errors name: one for
nearly everything, one each for the servers of custom resource definitions and of API services.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.typeinfo.schema import INTERNAL, Schemas, Struct
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

_MAIN = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
_OWN = {  # by API group
    "apiextensions.k8s.io": "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:53",
    "apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
}
_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_META_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
_META_KINDS = frozenset(
    (
        "CreateOptions",
        "GetOptions",
        "ListOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "PatchOptions",
        "Table",
        "UpdateOptions",
        "WatchEvent",
    )
)
# Kinds of versions that are not served any more, which have the fields of one that is.
_UNSERVED = {GroupVersionKind("policy", "v1beta1", "Eviction"): GroupVersionKind("policy", "v1", "Eviction")}
_UNVERSIONED = frozenset(("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"))


def gvk_with_defaults(api_version: str, kind: str, default: GroupVersionKind) -> GroupVersionKind:
    """What an object says it is, with what it does not say taken from `default`. Raises DecodeError."""
    if api_version.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    group, version = split_api_version(api_version)
    if not version and group in ("", default.group):
        group, version = default.group, default.version
    return GroupVersionKind(group, version, kind or default.kind)


def decode_registered(
    schemas: Schemas,
    sent: GroupVersionKind,
    wanted: GroupVersionKind,
    decode: Callable[[Struct], tuple[Obj, list[str]]],
    source: Callable[[], str],
) -> tuple[Obj, list[str]]:
    """What `decode` makes of an object in the type that it says it is, which converts to the wanted kind. `source` is
    its text. Raises DecodeError."""
    if sent == wanted:
        return decode(schemas.kind(*wanted))
    if not sent.version:
        raise DecodeError(f"Object 'apiVersion' is missing in '{source()}'")
    struct = _registered(schemas, sent, wanted.group)
    if struct is None:
        version = f"version {go_quote(sent.api_version)}"
        if sent.version == INTERNAL:
            version = f"the internal version of group {go_quote(sent.group)}"
        scheme = _OWN.get(wanted.group, _MAIN)
        raise DecodeError(f'no kind {go_quote(sent.kind)} is registered for {version} in scheme "{scheme}"')
    result = decode(struct)
    hub, internal = sent._replace(version=INTERNAL), schemas.kind(wanted.group, INTERNAL, wanted.kind)
    if not schemas.has_kind(*hub) or schemas.kind(*hub) is not internal:
        raise DecodeError(f"converting ({struct.go}) to ({internal.go}): unknown conversion")
    return result


def _registered(schemas: Schemas, sent: GroupVersionKind, server: str) -> Struct | None:
    """The type of a kind in the scheme that an API group is served by."""
    if sent.kind in _UNVERSIONED:
        return schemas.kind("", "v1", sent.kind)
    sent = _UNSERVED.get(sent, sent)
    if not schemas.has_kind(*sent) or sent.group in _OWN.keys() - {server}:
        return None
    struct = schemas.kind(*sent)
    everywhere = sent.group == "" and struct.name.startswith("k8s.io/apimachinery/")
    return struct if server not in _OWN or sent.group == server or everywhere else None


def decode_delete_options(schemas: Schemas, api_version: str, kind: str, decode: Callable[[Struct], Obj]) -> Obj:
    """Return what `decode` makes of the body of a DELETE. Its scheme knows kinds of meta/v1 only.

    DeleteOptions of any version will do, and a body need not say what it is. Raises DecodeError."""
    if api_version.count("/") > 1:
        raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    kind = kind or "DeleteOptions"
    if kind == "DeleteOptions":
        return decode(schemas.struct(f"{_META}.{kind}"))
    if kind not in _UNVERSIONED and (api_version != "meta.k8s.io/v1" or kind not in _META_KINDS):
        version = go_quote(api_version or "v1")
        raise DecodeError(f'no kind {go_quote(kind)} is registered for version {version} in scheme "{_META_SCHEME}"')
    struct = schemas.struct(f"{_META}.{kind}")
    decode(struct)
    raise DecodeError(f"converting ({struct.go}) to (v1.DeleteOptions): unknown conversion")
