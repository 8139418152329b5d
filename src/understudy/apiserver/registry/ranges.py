"""The ranges of numbers that objects hold: which of them are taken, over all servers of a store.

    /registry/ranges/servicenodeports   RangeAllocation: a bitmap, with a bit for each number that somebody holds

A bit is set before its object is stored, and cleared when that is gone. Upstream:
pkg/registry/core/service/allocator/storage, and the repair controllers of ipallocator and portallocator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from understudy.apiserver.storage.interface import Entry, KeyExistsError, RevisionConflictError, Store
from understudy.kinds.number_range import NumberRange
from understudy.machinery import errors

PREFIX = "/registry/ranges/"
REPAIRS = 2  # that a number outlasts which nobody holds: somebody may be about to store its object

Numbers = Mapping[NumberRange, int]  # bitmaps


class TakenError(RevisionConflictError):
    """Something that a request has chosen, since it seemed to be free, and that somebody else has taken meanwhile."""

    def __init__(self) -> None:
        super().__init__(None)


class Ranges:
    """The ranges in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leaks: dict[NumberRange, dict[int, int]] = {}  # numbers that nobody holds, and how often that is ignored

    def allocated(self, numbers: NumberRange) -> int:
        """Return the bitmap of the numbers that are taken, as far as this process knows. Does not wait."""
        entry = self._store.peek(f"{PREFIX}{numbers.name}")
        return (numbers.read(entry.value) or 0) if entry else 0

    @asynccontextmanager
    async def taken(self, numbers: Numbers) -> AsyncIterator[None]:
        """Take numbers; if the block fails, they are free again. Raises TakenError."""
        taken: list[NumberRange] = []
        try:
            for each, bits in numbers.items():
                await self._change(each, sets=bits)
                taken.append(each)
            yield
        except BaseException:
            await self.release({each: numbers[each] for each in taken})
            raise

    async def release(self, numbers: Numbers) -> None:
        """Free numbers."""
        for each, bits in numbers.items():
            await self._change(each, clears=bits)

    async def _change(self, numbers: NumberRange, *, sets: int = 0, clears: int = 0) -> None:
        """Set or clear bits. Raises TakenError if one that is to be set is set already."""
        while sets or clears:
            entry = await self._store.get(f"{PREFIX}{numbers.name}")
            bitmap = numbers.read(entry.value) if entry else 0
            if bitmap is None:
                raise errors.internal_error("the provided range does not match the current range")
            if bitmap & sets:
                raise TakenError
            if not await self._write(numbers, bitmap & ~clears | sets, entry):
                continue
            return

    async def _write(self, numbers: NumberRange, bitmap: int, entry: Entry | None) -> bool:
        """Store a bitmap in the place of an entry; report whether that was still there."""
        key, value = f"{PREFIX}{numbers.name}", numbers.stored(bitmap)
        try:
            if entry is None:
                await self._store.create(key, value)
            elif value != entry.value:
                await self._store.update(key, value, entry.revision)
        except (KeyExistsError, RevisionConflictError):
            return False
        return True

    async def repair(self, numbers: NumberRange, held: Iterable[int]) -> None:
        """Set the bits of the numbers that objects hold, whose bitmaps are `held`; clear those that were found set
        without an object several times."""
        entry = await self._store.get(f"{PREFIX}{numbers.name}")
        stored, bitmap = (numbers.read(entry.value) or 0) if entry else 0, 0
        for bits in held:
            bitmap |= bits
        before, leaks = self._leaks.get(numbers, {}), dict[int, int]()
        for number in numbers.numbers(stored & ~bitmap):
            left = before.get(number, REPAIRS) - 1
            if left >= 0:
                bitmap |= numbers.bits([number])
            leaks[number] = left
        if await self._write(numbers, bitmap, entry):  # else it is done the next time
            self._leaks[numbers] = leaks
