"""Objects of every kind that is served, for admission plugins: versions, conversion, defaults, and what is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from understudy.admission.chain import Attributes
from understudy.kinds.context import Context
from understudy.machinery.patch.structured_merge_diff.typed import Type
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, NamedTuple, Obj


class RestMapping(NamedTuple):
    """A resource in one version, with the kind of its objects, or of a subresource's bodies (`meta.RESTMapping`)."""

    resource: GroupVersionResource
    kind: GroupVersionKind
    namespaced: bool


class OtherKindError(Exception):
    """Says why an object that names another kind or version does not convert. `kind`: the one it names."""

    def __init__(self, kind: GroupVersionKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ObjectInterfaces(Protocol):
    """Knows the kinds that are served, built-in and custom ones (`admission.ObjectInterfaces`).

    Objects are in the internal form, or in a version; the latter have kind and apiVersion.
    """

    def equivalent_resources(self, resource: GroupVersionResource, subresource: str) -> Sequence[RestMapping]:
        """Return the resources that serve the same objects, in every group and version (`EquivalentResourcesFor`)."""

    def rest_mapping(self, kind: GroupVersionKind) -> RestMapping | None:
        """Return the resource of a kind, None if the kind is not served in that version."""

    def is_custom(self, kind: GroupVersionKind) -> bool:
        """Report whether a kind is that of custom resources, which have no Go type."""

    def to_version(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        """Convert an internal object, or the body of a subresource, to a version of its kind."""

    def into_internal(self, obj: Obj, kind: GroupVersionKind, request_kind: GroupVersionKind, existing: Obj) -> Obj:
        """Convert what `decode` returned for a kind to the internal form, which for custom resources is that of the
        request's version. What the kind's version does not have is taken from the existing internal object.

        Raises OtherKindError for another kind, and 500 for a custom resource that a webhook does not convert.
        """

    def decode(self, obj: Obj, kind: GroupVersionKind, *, strict: bool = True) -> Obj:
        """Return a JSON value as an object of the kind that it names, or of `kind` where it names none.

        Raises DecodeError for what does not fit its type, and for a custom resource without a kind.

        strict  whether unknown fields are an error; else they are dropped. Those of custom resources are kept
        """

    def to_kind(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        """Convert a decoded object to exactly this kind and version. Raises OtherKindError.

        Unknown fields of a custom resource are dropped, and a webhook may convert it. Raises 500 if that fails.
        """

    def in_order(self, obj: Obj, kind: GroupVersionKind) -> Obj:
        """Return an object of a version with its fields in the order in which the real server encodes them."""

    def set_defaults(self, obj: Obj, kind: GroupVersionKind, ctx: Context) -> None:
        """Set the defaults of an object of a kind, in place."""

    def merge_type(self, kind: GroupVersionKind) -> Type:
        """Return the type by which objects of a version are merged (`managedfields.TypeConverter`).

        Raises InvalidValue for the bodies of subresources, which have no such type.
        """

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        """Return all stored objects of a resource, in the internal form; none if it is not served."""

    def get(self, mapping: RestMapping, namespace: str, name: str) -> Obj | None:
        """Return a stored object in the version of a mapping, None if there is none."""

    def list(self, mapping: RestMapping, namespace: str) -> Sequence[Obj]:
        """Return the stored objects of a namespace, or ("") of all, in the version of a mapping."""

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        """Call a function after every write of a resource, for as long as the server lives."""


class VersionedAttributes:
    """The objects of a request in one version (`admission.VersionedAttributes`).

    dirty   whether `object` is another one than the request's
    values  both objects as expressions see them, None until one does
    """

    __slots__ = ("attributes", "dirty", "kind", "object", "old_object", "values")

    def __init__(self, attributes: Attributes, kind: GroupVersionKind, objects: ObjectInterfaces) -> None:
        self.attributes = attributes
        self.kind = kind
        self.object = None if attributes.object is None else objects.to_version(attributes.object, kind)
        self.old_object = None if attributes.old_object is None else objects.to_version(attributes.old_object, kind)
        self.dirty = False
        self.values: tuple[Any, Any] | None = None

    def replace(self, obj: Obj) -> None:
        """Replace the new object."""
        self.object, self.values, self.dirty = obj, None, True


def loses_times(attributes: Attributes, objects: ObjectInterfaces, now: str) -> bool:
    """Report whether any patch changes the object of a request, be it only in fractions of seconds.

    Inside the real server, the times of the managed fields that a request has set have them, until a patch is applied
    for the first time and the object is read from JSON. The times of custom resources are texts.
    """
    if attributes.object is None or attributes.reinvocation.needed or objects.is_custom(attributes.kind):
        return False
    known = ((attributes.old_object or {}).get("metadata") or {}).get("managedFields") or ()
    entries = (attributes.object.get("metadata") or {}).get("managedFields") or ()
    return any(entry.get("time") == now and not any(_is_rest(entry, other) for other in known) for entry in entries)


def _is_rest(entry: Obj, known: Obj) -> bool:
    """Report whether an entry of managed fields is what a write has left of another one: it has no other fields."""
    same = all(entry.get(name) == known.get(name) for name in {*entry, *known} - {"fieldsV1"})
    return same and _is_part(entry.get("fieldsV1") or {}, known.get("fieldsV1") or {})


def _is_part(fields: Obj, other: Obj) -> bool:
    return all(name in other and _is_part(inner, other[name]) for name, inner in fields.items())


def admission_request(attributes: Attributes, resource: GroupVersionResource, kind: GroupVersionKind) -> Obj:
    """Return the request of an AdmissionReview without its objects (`CreateAdmissionRequest`)."""
    subresource = attributes.point.subresource
    request: Obj = {
        "uid": "",
        "kind": kind._asdict(),
        "resource": resource._asdict(),
        "subResource": subresource,
        "requestKind": attributes.kind._asdict(),
        "requestResource": attributes.resource._asdict(),
        "requestSubResource": subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": str(attributes.point.operation),
        "userInfo": attributes.user,
        "object": None,
        "oldObject": None,
        "dryRun": attributes.dry_run,
        "options": attributes.options or None,
    }
    optional = ("subResource", "requestSubResource", "name", "namespace")
    return {key: value for key, value in request.items() if value or key not in optional}
