"""How seldom Python looks for cycles among the objects of a program that keeps nearly all of what it makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

# Objects that are made and not freed yet, before Python looks for cycles among them: its default is 700. A server keeps
# nearly all of what outlives a request, and makes cycles only of connections (some 20 objects each), not of requests.
# So there is little to find. Each second search takes the middle generation along, and each fourth all: a search sees
# some 50,000 objects at the most, in 10 to 25 ms, while 86,000 objects are written, and costs each CREATE 4 µs.
GARBAGE_THRESHOLDS = (5_000, 0, 0)
OLDEST = 2  # generation
LONG_GARBAGE_PAUSE = 0.01  # seconds


@contextmanager
def little_garbage_collection() -> Iterator[None]:
    """Let Python look for cycles meanwhile as seldom as suits a server."""
    thresholds, keep_short = gc.get_threshold(), _KeepGarbagePausesShort()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.callbacks.append(keep_short)
    try:
        yield
    finally:
        gc.freeze()  # at the end of the process, freeing a hundred thousand objects one by one would take seconds
        gc.callbacks.remove(keep_short)
        gc.set_threshold(*thresholds)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Do not let Python look for cycles meanwhile.

    Modules and what a server begins with are none, and to look at them takes a tenth of the start.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Do not let Python look for cycles meanwhile, nor later among the objects that are made meanwhile."""
    with without_garbage_collection():
        yield
        gc.freeze()


class _KeepGarbagePausesShort:
    """Lets Python's search for cycles pass over what is stored, once there is so much that the search takes long.

    Everything is blocked during a search: for a second, if a million objects are stored. What a search of all objects
    has left that took long is not looked at again (`gc.freeze`). It is freed as soon as nothing refers to it, but for
    the cycles in it: those of the connections of that moment. After a search of the young ones alone, cycles that are
    garbage already would be kept for good with the old ones.
    """

    def __init__(self) -> None:
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Note the beginning of a search, or judge how long it took."""
        if phase == "start":
            self._began = thread_time()
        elif info["generation"] == OLDEST and thread_time() - self._began > LONG_GARBAGE_PAUSE:
            gc.freeze()
