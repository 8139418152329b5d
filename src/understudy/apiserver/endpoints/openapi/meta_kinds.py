"""Kinds that belong to every group-version, such as `DeleteOptions`: how OpenAPI documents name them."""

from __future__ import annotations

from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.group_versions import registered
from understudy.machinery.types import Obj

# Groups that the server knows, and the scheme of client-go does not, from which upstream takes the types of metadata.
_UNKNOWN_TO_CLIENTS = frozenset(
    ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
)


def known_to_server(kind: str, version: Version) -> list[Obj]:
    """Return a kind in every group-version that the server knows, as `x-kubernetes-group-version-kind` has them."""
    return [{"group": group, "kind": kind, "version": name} for group, name in sorted(registered(version))]


def known_to_clients(kind: str, version: Version) -> list[Obj]:
    """Return a kind in every group-version of the scheme of client-go."""
    return [gvk for gvk in known_to_server(kind, version) if gvk["group"] not in _UNKNOWN_TO_CLIENTS]
