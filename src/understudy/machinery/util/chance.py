"""What chance decides, from one seed: names, uids and pauses. Only a simulation chooses the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random, SystemRandom

_names: Random = SystemRandom()
_bits = Random()  # begins with random bytes of the system, and asks for no more


def choices(alphabet: str, count: int) -> str:
    """Return a text of random characters."""
    return "".join(_names.choices(alphabet, k=count))


def bits(count: int) -> int:
    """Return an integer of random bits."""
    return _bits.getrandbits(count)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let all that chance decides in this process come from a seed meanwhile."""
    global _names, _bits
    before, state = (_names, _bits), random.getstate()
    _names = _bits = Random(seed)
    random.seed(seed)
    try:
        yield
    finally:
        _names, _bits = before
        random.setstate(state)
