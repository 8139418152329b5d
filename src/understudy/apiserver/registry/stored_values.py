"""Objects as the bytes that kube-apiserver keeps in etcd, and back.

Built-in kinds are stored as Kubernetes protobuf behind its prefix, or as what `--storage-media-type` says, in the
storage version of the release. Definitions, API services and custom resources are always JSON, with a newline at the
end; custom resources are CBOR with the gate `CBORServingAndStorage`, and read in both forms whatever it says. A value
names its version, and every version that the release knows is read, as by the real server after an upgrade: with the
defaults of that version, converted to the internal form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.apiserver.encoding.conversion import bare
from understudy.apiserver.encoding.go_codec import GoCodec
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.engine import EncryptedError
from understudy.apiserver.storage.interface import Raw
from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind, Resources
from understudy.machinery.golang.json_writer import as_read_again, encode_map, with_go_floats
from understudy.machinery.patch import patch_body
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.cbor.decode import decode_unstructured
from understudy.machinery.serializer.cbor.items import parse
from understudy.machinery.serializer.json import (
    DecodeError,
    decode_parsed,
    decode_value,
    encode,
    parse_json,
    read_type_meta,
    type_meta_of,
    yaml_to_json,
)
from understudy.machinery.serializer.ordering import in_field_order
from understudy.machinery.serializer.protobuf_wire import MAGIC, make_envelope, open_envelope
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import decode_registered
from understudy.machinery.typeinfo.unserved import served_as
from understudy.machinery.types import GroupVersionKind, NamedTuple, Obj, split_api_version
from understudy.machinery.util.deep_recursion import call_deeply

PROTOBUF, JSON, YAML = "application/vnd.kubernetes.protobuf", "application/json", "application/yaml"
MEDIA_TYPES = (PROTOBUF, JSON, YAML)

_ROOT = "/registry/"
_ENCRYPTED = b"k8s:enc:"
# What the real server keeps for itself: {prefix of the keys: kind}. No resource serves these.
_OWN = {"ranges": "RangeAllocation", "masterleases": "Endpoints", "peerserverleases": "Endpoints"}
# Versions that the release only reads, whose form is not that of the version which took their place.
_OTHER_FORMS = {
    "autoscaling/v2beta1": ("HorizontalPodAutoscaler",),
    "extensions/v1beta1": ("Ingress",),
    "networking.k8s.io/v1beta1": ("Ingress",),
    "node.k8s.io/v1alpha1": ("RuntimeClass",),
    "rbac.authorization.k8s.io/v1alpha1": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
}


def stored_bytes(kind: Kind, value: Obj, media_type: str = PROTOBUF, *, in_cbor: bool = False) -> bytes:
    """Return an internal object as a kube-apiserver stores it.

    media_type  that of most built-in kinds
    in_cbor     whether custom resources are stored in CBOR
    """
    if kind.custom is not None:
        return _custom_bytes(value, in_cbor)
    if kind.behavior.stored_as_json is not None:
        ordered = in_field_order(value, kind.struct(kind.versions[0]))
        return encode(kind.behavior.stored_as_json.write(ordered)) + b"\n"
    stored = kind.stored
    conversion = kind.behavior.conversions.get(stored.version) if kind.group == stored.group else None
    obj = conversion.from_internal(value) if conversion else value
    struct = Schemas.of(kind.release).kind(*stored)
    if media_type == PROTOBUF:
        return make_envelope(stored.api_version, stored.kind, protobuf.encode_message(obj, struct))
    named = {"kind": stored.kind, "apiVersion": stored.api_version, **in_field_order(obj, struct)}
    return encode(named) + b"\n" if media_type == JSON else _yaml(named)


def _custom_bytes(value: Obj, in_cbor: bool) -> bytes:
    """Return a custom resource as it is stored."""
    if in_cbor:
        return cbor.encode_in_order(value)
    return encode_map(value) + b"\n"


def _yaml(value: Obj) -> bytes:
    from understudy.machinery.golang.yaml_writer import dump_yaml  # few store YAML

    return dump_yaml(value).encode()


class _Source(NamedTuple):
    """The type of the values of one version of a kind, and what makes a decoded object internal."""

    struct: Struct
    internal: Callable[[Obj], Obj]


class StoredValues:
    """Turns objects into the bytes that a kube-apiserver of a release stores under their keys, and back.

    kinds       those of the release, with all group-versions: what is stored stays when one is switched off
    media_type  one of MEDIA_TYPES (`--storage-media-type`)
    """

    def __init__(self, kinds: Resources, version: Version, gates: Gates, media_type: str = PROTOBUF) -> None:
        self._resources = kinds
        self._version = version
        self._gates = gates
        self._media_type = media_type
        self._in_cbor = gates[features.CBOR_SERVING_AND_STORAGE]
        self._schemas = Schemas.of(version)
        own = {f"{_ROOT}{name}/": _own_kind(version, kind) for name, kind in _OWN.items()}
        # Events are stored for two groups: the one that they are stored as comes last, and stays.
        stored = sorted(kinds.kinds, key=lambda kind: kind.group == kind.stored.group)
        self._kinds = {**own, **{prefix_of(kind): kind for kind in stored if not kind.virtual}}
        self._sources: dict[tuple[Kind, str, str], _Source] = {}

    def encode(self, key: str, value: Obj) -> bytes:
        """Return the bytes of an object, which is in its internal form. Raises ValueError for an unknown key."""
        kind = self.kind_of(key)
        if kind is None:
            return call_deeply(_custom_bytes, value, self._in_cbor)
        return call_deeply(stored_bytes, kind, value, self._media_type)

    def decode(self, key: str, raw: Raw) -> Obj:
        """Return the internal form of the object of some bytes.

        Raises ValueError for bytes that cannot be read, and for keys and versions that the release does not know;
        EncryptedError for bytes that are encrypted.
        """
        kind = self.kind_of(key)
        raw = bytes(raw)
        if raw.startswith(_ENCRYPTED):
            raise EncryptedError(f"{key}: identity transformer tried to read encrypted data")
        try:
            return call_deeply(self._decode, kind, raw) if kind else call_deeply(self._custom_object, raw)
        except DecodeError as error:
            raise ValueError(f"{key}: {error}") from error

    def labels(self, key: str, raw: Raw) -> Mapping[str, str] | None:
        """Return the labels of the object of some bytes without reading the rest.

        None where only `decode` tells them: it is not stored as protobuf, cannot be read, or has labels by default.
        """
        try:
            kind, raw = self.kind_of(key), bytes(raw)
            if kind is None or kind.behavior.defaults_labels or not raw.startswith(MAGIC):
                return None
            api_version, name, message = open_envelope(raw)
            self._source(kind, api_version, name)
            return protobuf.read_labels(message)
        except ValueError:
            return None

    def is_current(self, key: str, raw: Raw, value: Obj) -> bool:
        kind, raw = self.kind_of(key), bytes(raw)
        if kind is None:  # what is stored of a custom resource names its version, and so changes with that
            return raw.startswith(cbor.PREFIX) == self._in_cbor
        if kind.behavior.defaulted_on_read and raw != self.encode(key, value):
            return False
        is_protobuf = self._media_type == PROTOBUF and kind.behavior.stored_as_json is None
        if raw.startswith(MAGIC) != is_protobuf:
            return False
        if is_protobuf:
            return tuple(protobuf.read_protobuf_type_meta(raw)) == (kind.stored.api_version, kind.stored.kind)
        body = raw if raw.startswith(b"{") else yaml_to_json(raw)[0]
        return tuple(read_type_meta(parse_json(body))) == (kind.stored.api_version, kind.stored.kind)

    def kind_of(self, key: str) -> Kind | None:
        """Return the built-in kind that is stored under a key, None for custom resources. Raises ValueError."""
        begin = key.find("/", len(_ROOT)) + 1
        kind = self._kinds.get(key[:begin]) or self._kinds.get(key[: key.find("/", begin) + 1])
        if kind is None and "." not in key[len(_ROOT) : begin]:
            raise ValueError(f"{key}: Kubernetes {self._version} stores nothing under this key")
        return kind

    def _custom_object(self, raw: bytes) -> Obj:
        """Return the custom resource of some bytes. Raises DecodeError."""
        if raw.startswith(cbor.PREFIX):
            value = with_go_floats(decode_unstructured(parse(raw, self._version)) or {})
        else:
            value = as_read_again(with_go_numbers(patch_body.loads(raw)[0]))
        api_version, name = type_meta_of(value)
        if not name or not api_version or not isinstance(value.get("metadata"), dict):
            raise DecodeError("the value is no custom resource: it has no apiVersion, kind or metadata")
        obj: Obj = value
        return obj

    def _decode(self, kind: Kind, raw: bytes) -> Obj:
        if raw.startswith(MAGIC):
            source = self._source(kind, *protobuf.read_protobuf_type_meta(raw))
            return source.internal(protobuf.decode(raw, source.struct))
        body = raw if raw.startswith(b"{") else yaml_to_json(raw)[0]
        parsed = parse_json(body)
        api_version, name = read_type_meta(parsed)
        if kind.behavior.stored_as_json is not None:
            document = kind.behavior.stored_as_json.read(patch_body.loads(body)[0])
            source = self._source(kind, *type_meta_of(document))
            return source.internal(decode_value(document, source.struct)[0])
        source = self._source(kind, api_version, name)
        return source.internal(decode_parsed(parsed, source.struct)[0])

    def _source(self, kind: Kind, api_version: str, name: str) -> _Source:
        """Return the source of values that name an apiVersion and a kind. Raises DecodeError."""
        source = self._sources.get((kind, api_version, name))
        if source is None:
            gvk = GroupVersionKind(*split_api_version(api_version), name)
            source = self._sources[kind, api_version, name] = self._new_source(kind, gvk)
        return source

    def _new_source(self, kind: Kind, gvk: GroupVersionKind) -> _Source:
        structs: list[Struct] = []

        def take(struct: Struct) -> tuple[Obj, list[str]]:
            structs.append(struct)
            return {}, []

        if gvk.kind in _OTHER_FORMS.get(gvk.api_version, ()) and not self._schemas.has_kind(*gvk):
            raise DecodeError(f"{gvk.kind} of {gvk.api_version} cannot be read: its form was another one")
        decode_registered(self._schemas, gvk, kind.gvk(kind.versions[0]), take, lambda: "")
        group, version, name = served_as(self._schemas, gvk)
        behavior = (self._resources.kind(group, name) or kind).behavior
        ctx, conversion = Context(self._version, self._gates, version), behavior.conversions.get(version)

        def internal(obj: Obj) -> Obj:
            behavior.defaults(obj, ctx)
            obj = bare(obj)
            return conversion.to_internal(obj) if conversion else obj

        return _Source(structs[0], internal)


def _own_kind(version: Version, name: str) -> Kind:
    """Return a kind that the real server stores for itself."""
    gvk = GroupVersionKind("", "v1", name)
    return Kind(version, "", name, name, name, False, (), ("v1",), gvk, new_codec=GoCodec.of)
