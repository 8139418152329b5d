"""The scope of a request: its resource, in the version that the path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.admission import chain
from understudy.apiserver.encoding.go_codec import GoDecoder
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.kinds.context import Context
from understudy.kinds.declarations.codec import Codec, Decoder
from understudy.kinds.declarations.kind import Behavior, Kind
from understudy.machinery.errors import bad_request
from understudy.machinery.options import ListOptions
from understudy.machinery.selectors.fields import FieldTerm
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, Obj, dataclass

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class RequestScope:
    """A resource, or an object of it, in the version that the path names."""

    info: RequestInfo
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the path, such as "apps/v1"."""
        return self.kind.gvk(self.version).api_version

    @property
    def codec(self) -> Codec:
        """Return the codec of the resource in the version of the path."""
        return self.kind.codec(self.version)

    @property
    def behavior(self) -> Behavior:
        """Return the behavior of the kind."""
        return self.kind.behavior

    @property
    def body_kind(self) -> GroupVersionKind:
        """Return the kind of the body: that of the resource, or that of a subresource such as Scale."""
        part = self.kind.subresources.get(self.subresource)
        return self.kind.subresource_kind(part, self.version) if part else self.kind.gvk(self.version)

    @property
    def decoder(self) -> Decoder:
        """Return the decoder of bodies: objects of the resource, or of a subresource such as Scale."""
        part = self.kind.subresources.get(self.subresource)
        if part is None or part.kind.kind == self.kind.name:
            return self.codec
        return GoDecoder(Schemas.of(self.kind.release), self.body_kind)

    def point(self, operation: chain.Operation) -> chain.Point:
        """Return the place in the admission chain where a request of this scope is asked."""
        kind = self.kind
        return chain.Point(operation, kind.group, kind.resource, self.subresource, kind.namespaced)

    def attributes(
        self,
        operation: chain.Operation,
        ctx: Context,
        obj: Obj | None = None,
        old: Obj | None = None,
        *,
        options: Obj | None = None,
        dry_run: bool = False,
    ) -> chain.Attributes:
        """Describe a request of this scope to admission plugins.

        A new object may have its name in the body; the objects of a deleted collection are not named.
        """
        metadata = (obj or {}).get("metadata") or {}
        name = self.name or metadata.get("name", "")
        is_namespace = (self.kind.group, self.kind.resource) == ("", "namespaces")
        return chain.Attributes(
            self.point(operation),
            self.body_kind,
            name if is_namespace else self.namespace or metadata.get("namespace", ""),
            name,
            obj,
            old,
            options or {},
            dry_run,
            ctx.requester,
            self.version,
        )


def selector_of(scope: RequestScope, options: ListOptions) -> Selector:
    """Return the selector of a list, a watch or a deletecollection. Raises 400 for fields without a selector."""
    terms = options.fields
    for term in terms:
        _check_label(scope, term)
    if scope.info.watch_path and scope.name:
        named = FieldTerm("metadata.name", scope.name, True)
        if terms and named not in terms:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        terms = terms or (named,)
    return Selector(options.labels, terms, scope.behavior.selectable)


def _check_label(scope: RequestScope, term: FieldTerm) -> None:
    """Raise 400 for a field that the kind cannot be selected by."""
    label, selectable = term.label, scope.behavior.selectable
    if label == "metadata.name" or label in selectable:
        return
    if not selectable and scope.kind.custom is None:
        if label != "metadata.namespace":
            only = '"metadata.name", "metadata.namespace"'
            raise bad_request(f'"{label}" is not a known field selector: only {only}')
    elif label != "metadata.namespace" or not scope.kind.namespaced:
        text = scope.behavior.unknown_field.format(label=label, api_version=scope.api_version, kind=scope.kind.name)
        raise bad_request(text)
