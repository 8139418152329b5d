"""Finds kinds by the names that people use, and the paths of their objects.

    find(serving, "deploy")       # or "deployments", "Deployment", "deployments.apps", "deployments.v1.apps"
    find_kind_of(serving, {"apiVersion": "apps/v1", "kind": "Deployment"})

A name that no kind has is an error with a hint, see `hints`.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.apiserver.client.hints import unknown_kind, unknown_resource
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.extensions.serving import Serving
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple, Obj, named_kind
from understudy.machinery.validation.names import path_segment_name


class RequestError(ValueError):
    """A request that cannot be sent, such as one for an object without a name."""


class ServedKind(NamedTuple):
    """A kind, in the version in which it is asked for."""

    kind: Kind
    version: str

    def collection(self, namespace: str) -> str:
        """Return the path of the objects of a namespace, "" for all. Kinds without namespaces ignore it."""
        return self._path(namespace, "", "")

    def object(self, namespace: str, name: str, subresource: str = "") -> str:
        """Return the path of an object, or of a subresource of it. Raises RequestError, with client-go's texts."""
        if not name:
            raise RequestError("resource name may not be empty")
        _check_segment("resource name", name)
        if self.kind.namespaced and not namespace:
            raise RequestError("an empty namespace may not be set when a resource name is provided")
        return self._path(namespace, name, subresource)

    def _path(self, namespace: str, name: str, subresource: str) -> str:
        kind = self.kind
        if not kind.namespaced:
            namespace = ""
        if namespace:
            _check_segment("namespace", namespace)
        return resource_path(kind.group, self.version, kind.resource, namespace, name, subresource)


def find(serving: Serving, text: str) -> ServedKind:
    """Return the kind with a kind, resource, singular or short name, in any case.

    A group, or a version and a group, may follow: "deployments.apps", "resourceclaims.v1beta1.resource.k8s.io". Kinds
    of which nothing is stored, such as reviews, come last. Raises StatusError (404).
    """
    __tracebackhide__ = True
    candidates = sorted(_named(serving, text), key=lambda served: served.kind.virtual)
    if not candidates:
        raise unknown_resource(serving, text)
    return candidates[0]


def find_kind_of(serving: Serving, obj: Obj) -> ServedKind:
    """Return the kind that a manifest names. Raises StatusError (404), RequestError for one that names none."""
    for field in ("kind", "apiVersion"):
        if not obj.get(field) or not isinstance(obj[field], str):
            raise RequestError(f"the manifest has no {field}")
    gvk = named_kind(obj)
    kind = serving.kind_in(*gvk)
    if kind is None:
        raise unknown_kind(serving, gvk.api_version, gvk.kind)
    return ServedKind(kind, gvk.version)


def _named(serving: Serving, text: str) -> Iterator[ServedKind]:
    name, _, group = text.lower().partition(".")
    for kind in serving.kinds:
        if name not in (kind.name.lower(), kind.resource, kind.singular, *kind.short_names):
            continue
        for version in kind.versions:
            if group in ("", kind.group, f"{version}.{kind.group}"):
                yield ServedKind(kind, version)


def _check_segment(part: str, text: str) -> None:
    """Refuse a text that does not fit between two slashes of a path. Upstream: `rest.IsValidPathSegmentName`."""
    if not isinstance(text, str):
        raise RequestError(f"invalid {part} {text!r}: want text")
    if problems := path_segment_name(text, False):
        raise RequestError(f"invalid {part} {go_quote(text)}: [{', '.join(problems)}]")
