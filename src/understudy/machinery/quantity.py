"""Quantities ("500m", "1Gi"): parsing, canonical text, comparison and arithmetic.

Upstream: `k8s.io/apimachinery/pkg/api/resource`. A quantity is a number with a suffix. It is kept exactly and written
with the largest suffix of its own family that leaves no fraction. Two oddities are seen by clients and so are kept:
some texts stay as they were sent ("+5", "1e3"), and a value that no suffix of its family can express loses its suffix
("1000000000000000000000000" becomes "1").
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import total_ordering
from typing import Self

from understudy.machinery.golang.text import parse_int
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_NUMBER = "unable to parse numeric part of quantity"
WRONG_SUFFIX = "unable to parse quantity's suffix"

DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

# Sign, leading zeros, integer digits, fraction, suffix. It accepts more than the error's text says: "e3" is a number.
_PARTS = regex(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = regex(r"[eE]([+-]?[0-9]+)", re.ASCII)

_DIGITS = 18  # as many decimal digits always fit into 64 bits
_NANO = -9
_MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_MAX_DIGITS = 4000  # Python refuses to parse longer numbers


class QuantityError(ValueError):
    """A text that is not a quantity; `str(error)` is the text that the real server answers."""


@total_ordering
class Quantity:
    """An amount: value * 10**exponent, written in `format` (upstream: `resource.Quantity`). Immutable; two are equal if
    the amounts are.

    `text` is the text it was parsed from, if Go would keep that, else "". `big` is true where Go holds a big decimal
    (`inf.Dec`) instead of a 64-bit integer; `as_int64` returns None for those.
    """

    __slots__ = ("big", "exponent", "format", "text", "value")

    def __init__(self, value: int, exponent: int, format_: str, text: str = "", *, big: bool = False) -> None:
        self.value = value
        self.exponent = exponent
        self.format = format_
        self.text = text
        self.big = big

    def __str__(self) -> str:
        return self.text or self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            other = Quantity(other, 0, DECIMAL_SI)
        return isinstance(other, Quantity) and compare(self, other) == 0

    def __lt__(self, other: Quantity | int) -> bool:
        return compare(self, Quantity(other, 0, DECIMAL_SI) if isinstance(other, int) else other) < 0

    def __hash__(self) -> int:
        return hash(_factored(self.value, self.exponent, 10))

    def canonical(self) -> str:
        """Return the canonical text, regardless of the text it was parsed from (upstream: `CanonicalizeBytes`)."""
        if not self.value:
            return "0"
        if self.format == BINARY_SI and not -1024 < self < 1024 and self == (whole := self.scaled(0)):
            # Go cannot make the smallest integer of 64 bits positive, to take the factors out of it.
            number, times = _factored(whole, 0, 1024) if self.big or whole != _MIN_INT64 else (whole, 0)
            return f"{number}{_BINARY_SUFFIX.get(times * 10, '')}"
        number, exponent = _factored(self.value, self.exponent, 10)
        number, exponent = number * 10 ** (exponent % 3), exponent - exponent % 3
        if self.format == DECIMAL_EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"

    def scaled(self, exponent: int) -> int:
        """Return the amount in units of 10**exponent, rounded away from zero: `scaled(0)` is upstream's `Value`,
        `scaled(-3)` is `MilliValue`."""
        return _rescaled(self.value, self.exponent, exponent)

    def as_int64(self) -> int | None:
        """Return the integer, or None if it was written with a fraction, does not fit or is a big decimal (upstream:
        `AsInt64`)."""
        if self.big or self.exponent < 0:
            return None
        whole = self.scaled(0)
        return whole if -_MAX_INT64 <= whole <= _MAX_INT64 else None

    def go_value(self) -> int:
        """Return the integer of Go's `Value`: beyond 64 bits it is 0, or the lowest bits of a big decimal."""
        whole = self.scaled(0)
        return whole if -_MAX_INT64 <= whole <= _MAX_INT64 else wrapped(whole) if self.big else 0

    def round_up(self, exponent: int) -> Quantity:
        """Return the quantity rounded away from zero to a multiple of 10**exponent (upstream: `RoundUp`). The original
        text is kept if nothing had to be rounded."""
        if self.exponent >= exponent:
            return Quantity(self.value, self.exponent, self.format, "" if self.big else self.text, big=self.big)
        return Quantity(self.scaled(exponent), exponent, self.format, big=self.big)

    def __add__(self, other: Quantity) -> Quantity:
        """Return the sum, in the format of `self` unless that is zero."""
        low = min(self.exponent, other.exponent)
        total = self.value * _power(self.exponent - low) + other.value * _power(other.exponent - low)
        format_ = self.format if self.value else other.format
        return Quantity(total, low, format_, big=self.big or other.big or abs(total) > _MAX_INT64)

    def __mul__(self, other: Quantity) -> Quantity:
        """Return the exact product, in the format of `self`."""
        return Quantity(self.value * other.value, self.exponent + other.exponent, self.format, big=True)

    def __neg__(self) -> Quantity:
        return Quantity(-self.value, self.exponent, self.format, big=self.big)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other


def wrapped(number: int) -> int:
    """Return a number as Go's integers of 64 bits hold it, which wrap around."""
    return (number + 2**63) % 2**64 - 2**63


def compare(a: Quantity, b: Quantity) -> int:
    """Return -1, 0 or 1 as `a` is less than, equal to or greater than `b` (upstream: `Quantity.Cmp`).

    Exponents may be absurd ("1e2147483647"), so the numbers of digits are compared before zeros are written out.
    """
    if (a.value > 0) != (b.value > 0) or not a.value or not b.value:
        return (a.value > b.value) - (a.value < b.value)
    size_a, size_b = (len(str(abs(q.value))) + q.exponent for q in (a, b))
    if size_a != size_b:
        return 1 if (size_a > size_b) == (a.value > 0) else -1
    low = min(a.exponent, b.exponent)
    left, right = a.value * _power(a.exponent - low), b.value * _power(b.exponent - low)
    return (left > right) - (left < right)


def _power(exponent: int) -> int:
    """Return 10**exponent for an exponent that is not negative, capped: "1e2147483647" would fill the memory."""
    return int(10 ** min(exponent, _MAX_DIGITS))


def _factored(value: int, exponent: int, base: int) -> tuple[int, int]:
    """Divide `value` by `base` as often as it goes, and add the number of times to `exponent`."""
    while value and value % base == 0:
        value //= base
        exponent += 1
    return value, exponent


def _rescaled(value: int, exponent: int, to: int) -> int:
    """Convert value * 10**exponent to units of 10**to, rounded away from zero."""
    if exponent >= to:
        return value * _power(exponent - to)
    if to - exponent > len(str(value)):
        return (value > 0) - (value < 0)
    whole, rest = divmod(abs(value), _power(to - exponent))
    return (whole + bool(rest)) * (1 if value > 0 else -1)


def _suffix(text: str) -> tuple[int, int, str]:
    """Return (base, exponent, format) of a suffix."""
    if text in _DECIMAL:
        return 10, _DECIMAL[text], DECIMAL_SI
    if text in _BINARY:
        return 2, _BINARY[text], BINARY_SI
    match = _EXPONENT.fullmatch(text)
    try:
        exponent = parse_int(match[1] if match else "")
    except ValueError as error:
        raise QuantityError(WRONG_SUFFIX) from error
    return 10, (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT  # Go keeps 32 bits


def parse(text: str) -> Quantity:
    """Parse a quantity (upstream: `ParseQuantity`). Raises QuantityError."""
    if text == "0":
        return Quantity(0, 0, DECIMAL_SI, text)
    match = _PARTS.fullmatch(text) if text else None
    if not match:
        raise QuantityError(WRONG_FORMAT)
    sign, zeros, integer, fraction, suffix = match.groups()
    if not integer and fraction is None and not suffix:
        return Quantity(0, 0, DECIMAL_SI)
    base, exponent, format_ = _suffix(suffix)
    fraction = fraction or ""
    digits = (integer or "0") + fraction
    if len(digits) > _MAX_DIGITS:
        raise QuantityError(WRONG_NUMBER)
    value = int(digits)
    if base == 2:
        value <<= exponent
        fits = not fraction and 14 - len(integer or "0") - exponent * 3 // 10 >= 0
        kept = fits and bool(int(digits) & 7)
        scale = -len(fraction)
    else:
        scale = exponent - len(fraction)
        fits = len(digits) <= _DIGITS and scale >= _NANO
        kept = fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    signed = -value if sign == "-" else value
    if fits and value <= _MAX_INT64:
        return Quantity(signed, scale, format_, text if kept else "")
    if not (zeros or integer or fraction):
        raise QuantityError(WRONG_NUMBER)
    return _big(signed, scale, format_)


def _big(value: int, exponent: int, format_: str) -> Quantity:
    """Return a quantity that does not fit into 64 bits: rounded up to 1n, and a binary one capped at the largest 64-bit
    integer."""
    if exponent < _NANO:
        value, exponent = _rescaled(value, exponent, _NANO), _NANO
    quantity = Quantity(value, exponent, format_, big=True)
    if format_ == BINARY_SI:
        if abs(value) > _MAX_INT64 * _power(-exponent):
            return Quantity(_MAX_INT64 if value > 0 else -_MAX_INT64, 0, format_, big=True)
        if 0 < abs(value) < _power(-exponent):
            quantity.format = DECIMAL_SI
    return quantity


class RewrittenQuantity(str):
    """A canonical quantity whose text is read back as another Go value than the text that was sent.

    Both are the same amount, but `reflect.DeepEqual` tells them apart ("1024Mi" and "1Gi"), which decides who owns an
    atomic list: see `patch.apply.go_equality`. `sent` is the text that was sent, "" for null.
    """

    __slots__ = ("sent",)
    sent: str

    def __new__(cls, text: str, sent: str) -> Self:
        """Return a canonical quantity and the text that was sent."""
        rewritten = super().__new__(cls, text)
        rewritten.sent = sent
        return rewritten

    def __reduce__(self) -> tuple[type[RewrittenQuantity], tuple[str, str]]:
        """Return the class and its arguments, for copies and pickles."""
        return type(self), (str(self), self.sent)


class PrintedQuantity(RewrittenQuantity):
    """A quantity that Go has printed while it validates: it keeps that text from then on."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> PrintedQuantity:
        """Return a quantity of an object as one that was printed."""
        return cls(text, text.sent if isinstance(text, RewrittenQuantity) else text)


@cache_short_texts(4096)
def canonical_text(text: str, pointer: bool = False) -> str:
    """Return the text under which a quantity is stored and answered. Raises QuantityError.

    It is a RewrittenQuantity if Go would tell the stored value from the one sent. `pointer`: whether the field is a
    pointer; then the stored value also remembers that it was printed.
    """
    sent = parse(text.strip())
    stored = str(sent)
    same = bool(sent.text) if pointer else _go_fields(sent) == _go_fields(parse(stored))
    return stored if same else RewrittenQuantity(stored, text.strip())


def round_up_milli(text: str) -> str:
    """Return a quantity rounded up to thousandths: resource lists are kept no finer (`SetDefaults_ResourceList`)."""
    rounded = _rounded_up_milli(text)
    return text if rounded is None else rounded


@cache_short_texts(4096)
def _rounded_up_milli(text: str) -> str | None:
    """Return a quantity rounded up to thousandths, None if it has no smaller parts. Go forgets the text of one that it
    has rounded."""
    amount = parse(text)
    if amount.exponent >= -3:
        return None
    rounded = amount.round_up(-3)
    stored = str(rounded)
    if rounded.big or rounded.format != DECIMAL_SI:
        return stored
    return RewrittenQuantity(stored, f"{Decimal(rounded.value).scaleb(rounded.exponent):f}")


def parse_as_sent(text: str) -> Quantity:
    """Return a quantity of an object as Go holds it: while a write is validated, with the decimals that were sent."""
    if not isinstance(text, RewrittenQuantity):
        return parse(text)
    amount = parse(text.sent) if text.sent else Quantity(0, 0, "")
    if isinstance(text, PrintedQuantity):
        return Quantity(amount.value, amount.exponent, amount.format, str(amount), big=amount.big)
    return amount


def _go_fields(quantity: Quantity) -> tuple[int, int, str, str, bool]:
    """Return the fields of a Quantity, as Go's deep equality compares them."""
    return quantity.value, quantity.exponent, quantity.format, quantity.text, quantity.big
