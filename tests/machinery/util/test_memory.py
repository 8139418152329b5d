"""Holders take less memory when they are asked to, and keep what they hold."""

from __future__ import annotations

import gc
from weakref import WeakSet

import pytest
from sortedcontainers import SortedDict

from understudy.machinery.util import memory
from understudy.machinery.util.memory import SMALL, give_back, gives_back, shrink

MANY = 20_000


@pytest.mark.parametrize("container", [dict, SortedDict])
def test_emptied_mapping_shrinks(container: type[dict[str, int]]) -> None:
    """A mapping of which few items are left takes little, and has them in their order."""
    items = container((f"{number:05d}", number) for number in range(MANY))
    for key in [*items][:-10]:
        del items[key]
    assert items.__sizeof__() > SMALL
    shrink(items)
    assert items.__sizeof__() < SMALL
    assert [*items.items()] == [(f"{number:05d}", number) for number in range(MANY - 10, MANY)]
    items["99999"] = 0
    assert [*items][-1] == "99999"


def test_emptied_set_shrinks() -> None:
    """A set of which few items are left takes little."""
    items = set(range(MANY))
    items.difference_update(range(10, MANY))
    assert items.__sizeof__() > SMALL
    shrink(items)
    assert items.__sizeof__() < SMALL
    assert items == set(range(10))


def test_full_container_stays() -> None:
    """A container that is in use is not copied."""
    items = {number: number for number in range(MANY)}
    size = items.__sizeof__()
    shrink(items)
    assert items.__sizeof__() == size


def test_holder_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder is asked for as long as it lives, and not kept alive."""
    monkeypatch.setattr(memory, "_holders", WeakSet())  # others are those of servers with threads of their own

    class Holder:
        def give_back(self) -> None:
            asked.append(None)

    asked: list[None] = []
    holder = Holder()
    gives_back(holder)
    give_back()
    assert len(asked) == 1
    del holder
    gc.collect()
    give_back()
    assert len(asked) == 1
