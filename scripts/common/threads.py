"""Threads that work beside a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def working(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread until the block ends; it gets the event that is set then."""
    stopped = threading.Event()
    thread = threading.Thread(target=work, args=(stopped,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
