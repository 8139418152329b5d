"""Objects in memory, found by their keys and by indexes. Upstream: `cache.Indexer`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from understudy.machinery.util.memory import gives_back, shrink

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Indexer(Generic[K, T]):
    """Holds the objects that an informer follows. They are shared by all who read them: nobody edits one in place."""

    def __init__(self, key_of: Callable[[T], K]) -> None:
        self._key_of = key_of
        self._objects: dict[K, T] = {}
        self._functions: dict[str, Callable[[T], Iterable[Hashable]]] = {}
        self._indexes: dict[str, dict[Hashable, dict[K, T]]] = {}
        gives_back(self)

    def add_index(self, name: str, function: Callable[[T], Iterable[Hashable]]) -> None:
        """Index the objects by the values that a function returns for each."""
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, obj)

    def find(self, key: K) -> T | None:
        """Return the object with a key, None if there is none."""
        return self._objects.get(key)

    def objects(self) -> list[T]:
        """Return all objects, those first that came first."""
        return list(self._objects.values())

    def keys(self) -> list[K]:
        """Return the keys of all objects."""
        return list(self._objects)

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Return the objects that have a value in an index."""
        return list(self._indexes[name].get(value, {}).values())

    def put(self, obj: T) -> T | None:
        """Hold an object; return the one that it replaces."""
        key = self._key_of(obj)
        old = self._objects.get(key)
        if old is not None:
            self._leave(key, old)
        self._objects[key] = obj
        for name in self._functions:
            self._enter(name, key, obj)
        return old

    def remove(self, key: K) -> T | None:
        """Let an object go; return it, None if there was none."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._leave(key, old)
        return old

    def give_back(self) -> None:
        """Drop the room of objects that are gone."""
        shrink(self._objects, *self._indexes.values())

    def _enter(self, name: str, key: K, obj: T) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[key] = obj

    def _leave(self, key: K, old: T) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                entries = index.get(value, {})
                entries.pop(key, None)
                if not entries:
                    index.pop(value, None)
