"""A replica of the server whose watch cache lags behind."""

from __future__ import annotations

from copy import copy
from typing import Any, cast

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.storage.interface import Entry, Range, Store, Watch
from understudy.machinery.util.deep_recursion import run_to_end


def replica_of(state: ServerState, revision: int) -> ServerState:
    """Return the state of a replica whose watch cache is at a revision, for one read."""
    replica = copy(state)
    store = cast("Store", _LaggingStore(state.registry.store, revision))
    replica.registry = Registry(store, state.serving)
    return replica


class _LaggingStore:
    """A store as it was at a revision. A watch begins there, and gets what was written since."""

    def __init__(self, store: Store, revision: int) -> None:
        self._store = store
        self._revision = revision
        self._is_behind = True

    @property
    def revision(self) -> int:
        """Return the revision of the cache; the newest one after a watch has begun."""
        return self._revision if self._is_behind else self._store.revision

    async def get(self, key: str) -> Entry | None:
        """Return the entry that a key had, None if there was none."""
        folder = key[: key.rindex("/") + 1]
        batch = await self._store.range(folder, start=key, limit=1, revision=self._revision)
        return next((entry for entry in batch.entries if entry.key == key), None)

    def peek(self, key: str) -> Entry | None:
        """Return the entry that a key had: reads of the past wait for nothing."""
        return run_to_end(self.get(key))

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """Return the entries under a prefix as they were. Raises CompactedError."""
        return await self._store.range(prefix, start=start, limit=limit, revision=revision or self._revision)

    def watch(self, prefix: str, after: int, **options: Any) -> Watch:
        """Return a watch of the writes after a revision. Raises CompactedError."""
        watch = self._store.watch(prefix, after, **options)
        self._is_behind = False
        return watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
