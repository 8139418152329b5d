"""Objects of one resource in memory, found by name and by indexes. Upstream: `cache.Store`."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.indexer import Indexer
from understudy.machinery.types import NamedTuple, Obj


class Key(NamedTuple):
    """The namespace and name of an object; the namespace of a cluster's object is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: Obj) -> Key:
    """Return the key of an object. Upstream: `cache.MetaNamespaceKeyFunc`."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


class Store(Indexer[Key, Obj]):
    """Holds the objects of one resource."""

    def __init__(self) -> None:
        super().__init__(key_of)

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return an object, None if there is none."""
        return self.find(Key(namespace, name))
