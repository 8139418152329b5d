"""Compaction by age: a store forgets what is older than one or two intervals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.apiserver.storage.interface import Store


async def compact_periodically(store: Store, interval: float, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Compact a store every `interval` seconds, up to the revision that it had at the turn before.

    Upstream: `compactor` in k8s.io/apiserver/pkg/storage/etcd3. Runs until it is cancelled; `sleep` waits for seconds.
    """
    revision = 0
    while True:
        await sleep(interval)
        if revision:
            await store.compact(revision)
        revision = store.revision
