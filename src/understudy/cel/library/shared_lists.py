"""Lists made of others: `one + other` shares the elements of both, and a list that a macro collects grows in place.

Upstream: `concatList`, `mutableList` and `mutableMap` of cel-go. So a list that is added to itself again and again
takes no memory, and a macro takes time in proportion to what it collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex, overload

from understudy.cel.errors import EvaluationError
from understudy.cel.limits.interrupts import current_meter
from understudy.cel.values import INT_MAX, Declared, Value, equal

_SHORT = 32  # elements of lists that are copied: sharing would take as much memory


class ConcatList(list[Value]):
    """Two lists, one after the other. Only reading is supported."""

    __slots__ = ("_first", "_second", "_size", "_start")

    def __init__(self, first: list[Value], second: list[Value]) -> None:
        super().__init__()
        self._first = first
        self._second = second
        self._start = len(first)
        self._size = self._start + len(second)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Value]:
        for part in self._parts():
            yield from part

    def _parts(self) -> Iterator[list[Value]]:
        """Yield the lists that this one is made of, in their order."""
        meter, pending = current_meter(), [self]
        part: list[Value]
        while pending:
            part = pending.pop()
            while type(part) is ConcatList:
                pending.append(part._second)  # type: ignore[arg-type]
                part = part._first
            meter.count(len(part))
            yield part

    @overload
    def __getitem__(self, index: SupportsIndex) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> list[Value]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Value | list[Value]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._size))]
        position, part = int(index), self
        if position < 0:
            position += self._size
        while type(part) is ConcatList:
            if position < part._start:
                part = part._first  # type: ignore[assignment]
            else:
                position -= part._start
                part = part._second  # type: ignore[assignment]
        return list.__getitem__(part, position)

    def __reversed__(self) -> Iterator[Value]:
        return (self[position] for position in range(self._size - 1, -1, -1))

    def __contains__(self, value: object) -> bool:
        return any(equal(value, each) for each in self)

    def __eq__(self, other: object) -> bool:
        return equal(self, other)

    __hash__ = None


class GrowingList(list[Value]):
    """The list that a macro collects: no other code sees it before the macro is done (`mutableList`)."""

    __slots__ = ()


class GrowingMap(dict[Any, Value]):
    """The map that a macro collects: no other code sees it before the macro is done (`mutableMap`)."""

    __slots__ = ()


def concat(one: list[Value], other: list[Value]) -> list[Value]:
    """Return the elements of both lists (`Add`). Raises EvaluationError for more of them than a number can count."""
    if type(one) is GrowingList:
        one += other
        return one
    if isinstance(one, Declared):
        return one + other
    if not other:
        return one
    if not one:
        return other
    size = len(one) + len(other)
    if size <= _SHORT:
        return [*one, *other]
    if size > INT_MAX:
        raise EvaluationError("integer overflow")
    return ConcatList(one, other)


def grown(value: Value) -> Value:
    """Return the collection of a macro as a list or map like any other."""
    if type(value) is GrowingList:
        return list(value)
    return dict(value) if type(value) is GrowingMap else value
