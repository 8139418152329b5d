"""A range of numbers that objects hold, each number once, and the bitmap in which a store keeps who holds which."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator

from understudy.machinery.types import NamedTuple, Obj


class NumberRange(NamedTuple):
    """A range of numbers. A set of them is a bitmap: an integer whose lowest bit is the first number.

    name   of the RangeAllocation that is stored
    text   by which it says what the range is
    """

    name: str
    text: str
    first: int
    size: int

    def bits(self, numbers: Iterable[int]) -> int:
        """Return the bitmap of those numbers that are in the range."""
        bitmap = 0
        for number in numbers:
            if 0 <= number - self.first < self.size:
                bitmap |= 1 << (number - self.first)
        return bitmap

    def numbers(self, bitmap: int) -> Iterator[int]:
        """Yield the numbers of a bitmap."""
        while bitmap:
            lowest = bitmap & -bitmap
            yield self.first + lowest.bit_length() - 1
            bitmap ^= lowest

    def stored(self, bitmap: int) -> Obj:
        """Return the RangeAllocation of a bitmap, as it is stored."""
        data = bitmap.to_bytes((bitmap.bit_length() + 7) // 8, "big")
        return {"metadata": {}, "range": self.text, "data": b64encode(data).decode()}

    def read(self, allocation: Obj) -> int | None:
        """Return the bitmap of a RangeAllocation, None if it is of another range."""
        if allocation.get("range", self.text) != self.text:
            return None
        return int.from_bytes(b64decode(allocation.get("data") or ""), "big")
