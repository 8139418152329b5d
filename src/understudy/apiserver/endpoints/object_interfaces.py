"""The kinds of a registry and their stored objects, for admission plugins (see `ObjectInterfaces`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from understudy.admission.objects import OtherKindError, RestMapping
from understudy.apiserver.encoding.conversion import bare, from_internal, into_internal
from understudy.apiserver.encoding.encoded import load, versioned
from understudy.apiserver.registry.keys import key_of, prefix_of
from understudy.apiserver.registry.store import Registry
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind, Resources
from understudy.machinery.errors import internal_error
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, Type
from understudy.machinery.serializer.json import DecodeError, decode_value, encode, type_meta_of
from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.serializer.ordering import in_field_order, in_key_order
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas
from understudy.machinery.typeinfo.scheme import gvk_with_defaults, registered, unknown_conversion
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, Obj, named_kind

Equivalents = dict[tuple[Kind, str], tuple[RestMapping, ...]]  # by kind and subresource


class RegistryObjects:
    """Answers admission plugins from a registry. The bodies of subresources have the same form in all versions."""

    def __init__(self, registry: Registry, schemas: Schemas, *, lasts: bool = True) -> None:
        self._lasts = lasts
        self._registry = registry
        self._schemas = schemas
        # By what is served: when that is served no more, nothing keeps it, with the schemas of its definitions.
        self._equivalents: WeakKeyDictionary[Resources, Equivalents] = WeakKeyDictionary()

    def equivalent_resources(self, resource: GroupVersionResource, subresource: str) -> Sequence[RestMapping]:
        """Return the resources that serve the same stored objects, in the order of discovery."""
        kind = self._registry.resources.of_resource(resource.group, resource.resource)
        if kind is None:
            return ()
        equivalents = self._equivalents.setdefault(self._registry.resources, {})
        mappings = equivalents.get((kind, subresource))
        if mappings is None:
            mappings = equivalents[kind, subresource] = tuple(self._mappings(kind, subresource))
        return mappings

    def _mappings(self, kind: Kind, subresource: str) -> list[RestMapping]:
        same = [other for other in self._registry.resources.kinds if other.stored == kind.stored]
        return [
            RestMapping(
                GroupVersionResource(other.group, version, other.resource),
                other.subresource_kind(other.subresources[subresource], version) if subresource else other.gvk(version),
                other.namespaced,
            )
            for other in same
            if not subresource or subresource in other.subresources
            for version in other.versions
        ]

    def rest_mapping(self, kind: GroupVersionKind) -> RestMapping | None:
        served = self._kind(kind)
        if served is None or kind.version not in served.versions:
            return None
        return RestMapping(GroupVersionResource(kind.group, kind.version, served.resource), kind, served.namespaced)

    def is_custom(self, kind: GroupVersionKind) -> bool:
        served = self._kind(kind)
        return served is not None and served.custom is not None

    def to_version(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        served = self._kind(kind)
        if served is None:
            return {"kind": kind.kind, "apiVersion": kind.api_version, **bare(obj)}
        if served.custom is not None:
            return served.custom.convert(obj, kind.api_version) or obj
        return from_internal(served, kind.version, obj)

    def into_internal(self, obj: Obj, kind: GroupVersionKind, request_kind: GroupVersionKind, existing: Obj) -> Obj:
        """Convert a decoded object into an object in the kind's internal form (custom resources: the version of the
        request).

        Raises OtherKindError.
        """
        served, named = self._kind(kind), named_kind(obj)
        if served is not None and served.custom is not None:
            return self.to_kind(obj, request_kind)
        if named != kind and not self._same_internal_type(named, kind):
            raise self._unknown_conversion(named, kind)
        if served is None:
            return {**obj, "kind": kind.kind, "apiVersion": kind.api_version}
        internal = into_internal(served, named.version, obj, existing)
        return internal if "metadata" in internal else {**internal, "metadata": {}}  # nothing is read as `__internal`

    def to_kind(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        served, named = self._kind(kind), named_kind(obj)
        if served is not None and served.custom is not None:
            return self._to_custom(served, obj, kind)
        if named != kind:
            raise self._unknown_conversion(named, kind)
        return obj

    def _to_custom(self, served: Kind, obj: Obj, kind: GroupVersionKind) -> Obj:
        """Return an object as a custom resource of a version, without unknown fields. Raises OtherKindError."""
        assert served.custom is not None
        named = named_kind(obj)
        if named.group != kind.group:
            text = f"is unstructured and is not suitable for converting to {go_quote(kind.api_version)}"
            raise OtherKindError(named, f"{named.text} {text}")
        if served.custom.convert(obj, named.api_version) is None:
            text = f"request to convert CR from an invalid group/version: {named.group}/{named.version}"
            raise OtherKindError(named, text)
        converted = served.custom.convert(obj, kind.api_version)
        try:
            return served.codec(kind.version).decode_patched(converted, lambda: "")[0].obj
        except DecodeError as error:  # of metadata
            raise internal_error(str(error)) from None

    def _same_internal_type(self, named: GroupVersionKind, kind: GroupVersionKind) -> bool:
        """Report whether the objects of two built-in kinds convert to each other."""
        hub, schemas = named._replace(version=INTERNAL), self._schemas
        return schemas.has_kind(*hub) and schemas.kind(*hub) is schemas.kind(kind.group, INTERNAL, kind.kind)

    def _unknown_conversion(self, named: GroupVersionKind, kind: GroupVersionKind) -> OtherKindError:
        """Return the error for an object of a built-in kind that does not convert to another one."""
        struct = registered(self._schemas, named, kind.group)
        internal = self._schemas.kind(kind.group, INTERNAL, kind.kind)
        return OtherKindError(named, str(unknown_conversion(struct, internal)))

    def decode(self, obj: Obj, kind: GroupVersionKind, *, strict: bool = True) -> Obj:
        api_version, name = type_meta_of(obj)
        served = self._kind(kind)
        if served is not None and served.custom is not None:
            served.codec(kind.version).sent_kind(api_version, name, lambda: encode_sorted(obj).decode())
            return dict(obj)
        gvk = gvk_with_defaults(api_version, name, kind)
        if not gvk.version:
            raise DecodeError(f"Object 'apiVersion' is missing in '{encode(obj).decode()}'")
        struct = self._schemas.kind(*kind) if gvk == kind else registered(self._schemas, gvk, kind.group)
        decoded, strict_errors = decode_value(obj, struct)
        if strict and strict_errors:
            raise DecodeError(f"strict decoding error: {', '.join(strict_errors)}")
        return keep_empty_fields(decoded, {"kind": gvk.kind, "apiVersion": gvk.api_version, **bare(decoded)})

    def in_order(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        if self._schemas.has_kind(*kind):
            return in_field_order(obj, self._schemas.kind(*kind))
        sorted_obj: Obj = in_key_order(obj)
        return sorted_obj

    def set_defaults(self, obj: Obj, kind: GroupVersionKind, ctx: Context) -> None:
        served = self._kind(kind)
        if served is not None:
            served.behavior.defaults(obj, ctx if ctx.version == kind.version else replace(ctx, version=kind.version))

    def merge_type(self, kind: GroupVersionKind) -> Type:
        """Return the type by which objects of a version are merged. Raises InvalidValue for those of no served kind."""
        served = self._kind(kind)
        if served is None:
            raise InvalidValue(f"no corresponding type for {kind.group}/{kind.version}, Kind={kind.kind}")
        return served.codec(kind.version).object_type.merge_type

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        return self._registry.listing(group, resource)

    def get(self, mapping: RestMapping, namespace: str, name: str) -> Obj | None:
        kind = self._kind(mapping.kind)
        entry = kind and self._registry.store.peek(key_of(kind, namespace, name))
        return versioned(entry, kind, mapping.kind.version) if kind and entry else None

    def list(self, mapping: RestMapping, namespace: str) -> Sequence[Obj]:
        kind = self._kind(mapping.kind)
        if kind is None:
            return ()
        entries = self._registry.store.scan(prefix_of(kind, namespace))
        load(entries, kind)
        return [versioned(entry, kind, mapping.kind.version) for entry in entries]

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        """Call a function after every write of a resource, and when the store is emptied, if this lasts that long."""
        kind = self._registry.resources.of_resource(group, resource)
        if kind is not None and self._lasts:
            self._watch(prefix_of(kind), call)

    def _watch(self, prefix: str, call: Callable[[], None]) -> None:
        store = self._registry.store
        watch = store.watch(prefix, store.revision)

        def wake() -> None:
            while watch.queue:
                watch.take()
            call()
            if watch.overflown:  # the store was emptied, and has dropped its watches
                self._watch(prefix, call)

        watch.wake = wake

    def _kind(self, kind: GroupVersionKind) -> Kind | None:
        """Return a kind that is served, that of exactly this version if each version is a separate kind."""
        served = self._registry.resources.kind(kind.group, kind.kind)
        if served is None or served.custom is None:
            return served
        return self._registry.resources.resource(kind.group, kind.version, served.resource)
