"""Keys of objects in the store, which are those of the real server in etcd."""

from __future__ import annotations

from functools import lru_cache

from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote

# Kinds whose keys do not have the name of their resource.
_KEYS = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "apiextensions.k8s.io/customresourcedefinitions",
    ("apiregistration.k8s.io", "apiservices"): "apiregistration.k8s.io/apiservices",
    ("events.k8s.io", "events"): "events",
}


def prefix_of(kind: Kind, namespace: str = "") -> str:
    """Return the prefix of the keys of a kind, of one namespace or ("") of all. Ends with a slash."""
    prefix = resource_prefix(kind.group, kind.resource, is_custom=kind.custom is not None)
    return f"{prefix}{namespace}/" if namespace else prefix


@lru_cache(1024)
def resource_prefix(group: str, resource: str, *, is_custom: bool) -> str:
    """Return the prefix of all keys of a kind, which is not kept itself: those of definitions hold their schemas."""
    if is_custom:
        return f"/registry/{group}/{resource}/"
    return f"/registry/{_KEYS.get((group, resource), resource)}/"


def key_of(kind: Kind, namespace: str, name: str) -> str:
    """Return the key of an object; `namespace` is "" for kinds without namespaces."""
    return prefix_of(kind, namespace) + name


def check_name(name: str) -> None:
    """Raise 400 for a name that cannot be a part of a key."""
    if name and "%" not in name and name not in (".", ".."):
        return
    reason = f"may not be '{name}'" if name in (".", "..") else "may not contain '%'"
    raise errors.bad_request(
        f"Name parameter invalid: {go_quote(name)}: {reason}" if name else "Name parameter required."
    )
