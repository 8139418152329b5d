"""`resourceVersion` as the least that a read may answer from.

The real server reads from its watch cache, which waits for a version that is not there yet, or from etcd, which does
not (waitUntilFreshAndBlock and validateMinimumResourceVersion in k8s.io/apiserver/pkg/storage).
"""

from __future__ import annotations

import asyncio

from understudy.apiserver.storage.interface import Store
from understudy.machinery import errors
from understudy.machinery.options import resource_version

WAIT_SECONDS = 3.0  # seconds that the cache waits
RETRY_AFTER = 1  # seconds after which clients that have waited in vain may try again


async def wait_for(store: Store, version: str, wait_seconds: float) -> None:
    """Returns once the store has come to a version. Raises 504 if it does not within `patience` seconds, and 500."""
    revision = resource_version(version)
    if revision <= store.revision:
        return
    await _written(store, revision, wait_seconds)
    if revision > store.revision:
        raise _too_large(revision, store.revision, RETRY_AFTER)


def check(store: Store, version: str) -> None:
    """Raises 504 for a version that the store has not come to, and 400."""
    if (revision := exact(version)) > store.revision:
        raise _too_large(revision, store.revision, 0)


def exact(version: str) -> int:
    """A version as etcd is asked for it. Raises 400."""
    try:
        return resource_version(version)
    except errors.StatusError as error:
        raise errors.bad_request(f"invalid resource version: {error.message}") from None


async def _written(store: Store, revision: int, wait_seconds: float) -> None:
    """Returns once a revision is there, or when patience ends."""
    written = asyncio.Event()
    watch = store.watch("/", store.revision, limit=1)  # the writes do not matter, only that there are some
    watch.wake = written.set
    try:
        async with asyncio.timeout(wait_seconds):
            while revision > store.revision:
                written.clear()
                await written.wait()
    except TimeoutError:
        return
    finally:
        store.unwatch(watch)


def _too_large(revision: int, current: int, retry_after: int) -> errors.StatusError:
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return errors.timeout(message, retry_after, causes=[cause])
