"""Where objects are kept: the keys of the store, which are those of the real server in etcd."""

from __future__ import annotations

from functools import lru_cache

from understudy.apiserver.registry.kind import Kind
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote

# Where a kind is kept if not under its resource's name.
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
    """Under which the objects of a kind are kept, all or those of a namespace."""
    prefix = _prefix(kind)
    return f"{prefix}{namespace}/" if namespace else prefix


@lru_cache(1024)
def _prefix(kind: Kind) -> str:
    return f"/registry/{_KEYS.get((kind.group, kind.resource), kind.resource)}/"


def key_of(kind: Kind, namespace: str, name: str) -> str:
    return prefix_of(kind, namespace) + name


def check_name(name: str) -> None:
    """Refuses what cannot be a part of a key. Raises 400."""
    if name and "%" not in name and name not in (".", ".."):
        return
    why = f"may not be '{name}'" if name in (".", "..") else "may not contain '%'"
    raise errors.bad_request(f"Name parameter invalid: {go_quote(name)}: {why}" if name else "Name parameter required.")
