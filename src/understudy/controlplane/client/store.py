"""Objects of one resource in memory, found by name and by indexes. Upstream: `cache.Indexer`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from understudy.machinery.types import Obj


class Key(NamedTuple):
    """The namespace and name of an object; the namespace of a cluster's object is ""."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


IndexFunction = Callable[[Obj], Iterable[Hashable]]


def key_of(obj: Obj) -> Key:
    """Return the key of an object. Upstream: `cache.MetaNamespaceKeyFunc`."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


class Store:
    """Holds the objects of one resource. They are shared by all who read them: they are not edited in place."""

    def __init__(self) -> None:
        self._objects: dict[Key, Obj] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[Hashable, dict[Key, Obj]]] = {}

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index the objects by the values that a function returns for each."""
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, obj)

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return an object, None if there is none."""
        return self._objects.get(Key(namespace, name))

    def objects(self) -> list[Obj]:
        """Return all objects, those first that came first."""
        return list(self._objects.values())

    def keys(self) -> list[Key]:
        """Return the keys of all objects."""
        return list(self._objects)

    def by_index(self, name: str, value: Hashable) -> list[Obj]:
        """Return the objects that have a value in an index."""
        return list(self._indexes[name].get(value, {}).values())

    def put(self, obj: Obj) -> Obj | None:
        """Hold an object; return the one that it replaces."""
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None:
            self._leave(key, old)
        self._objects[key] = obj
        for name in self._functions:
            self._enter(name, key, obj)
        return old

    def remove(self, key: Key) -> Obj | None:
        """Let an object go; return it, None if there was none."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._leave(key, old)
        return old

    def _enter(self, name: str, key: Key, obj: Obj) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[key] = obj

    def _leave(self, key: Key, old: Obj) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                entries = index.get(value, {})
                entries.pop(key, None)
                if not entries:
                    index.pop(value, None)
