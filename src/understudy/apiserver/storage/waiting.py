"""Waiting for a store, on an event loop or in another thread, which is blocked meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

from understudy.apiserver.storage.interface import Store


def is_on_loop() -> bool:
    """Report whether this code runs on an event loop, not in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def wait_for_revision(store: Store, revision: int, seconds: float) -> None:
    """Wait until a store has reached a revision, at most so many seconds."""
    end = time.monotonic() + seconds
    written: asyncio.Event | threading.Event = asyncio.Event() if is_on_loop() else threading.Event()
    watch = store.watch("/", store.revision, limit=1)  # the writes do not matter, only that there are some
    watch.wake = written.set
    try:
        while revision > store.revision and (left := end - time.monotonic()) > 0:
            if isinstance(written, threading.Event):
                written.wait(left)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(written.wait(), left)
            written.clear()
    finally:
        store.unwatch(watch)
