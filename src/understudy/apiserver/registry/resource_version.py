"""`resourceVersion` of reads: the oldest revision that they may answer from.

The real server reads from its watch cache, which waits for a version that it has not reached yet, or from etcd, which
does not (upstream: `waitUntilFreshAndBlock`, `validateMinimumResourceVersion` in k8s.io/apiserver/pkg/storage).
"""

from __future__ import annotations

from understudy.apiserver.storage.interface import Store
from understudy.apiserver.storage.waiting import wait_for_revision
from understudy.machinery import errors
from understudy.machinery.options import resource_version

WAIT_SECONDS = 3.0  # seconds that the cache waits
RETRY_AFTER = 1  # seconds after which clients whose wait timed out may try again


async def wait_for(store: Store, version: str, wait_seconds: float) -> None:
    """Wait until the store has reached a version. Raises 504 if that takes more than `wait_seconds`, and 500."""
    revision = resource_version(version)
    if revision > store.revision:
        await store.catch_up()  # it may be that of a write which another server has made
    if revision <= store.revision:
        return
    await wait_for_revision(store, revision, wait_seconds)
    if revision > store.revision:
        raise too_large(revision, store.revision, RETRY_AFTER)


def check(store: Store, version: str) -> None:
    """Raise 504 for a version that the store has not reached, and 400 for one that is no number."""
    if (revision := exact(version)) > store.revision:
        raise too_large(revision, store.revision, 0)


def exact(version: str) -> int:
    """Return the revision of a version, 0 for none. Raises 400."""
    try:
        return resource_version(version)
    except errors.StatusError as error:
        raise errors.bad_request(f"invalid resource version: {error.message}") from None


def too_large(revision: int, current: int, retry_after: int) -> errors.StatusError:
    """Return the 504 for a version that the store has not reached (`NewTooLargeResourceVersionError`)."""
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return errors.timeout(message, retry_after, causes=[cause])
