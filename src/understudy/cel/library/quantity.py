"""Kubernetes quantities, such as `quantity("1Gi")`, and their comparison and arithmetic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from understudy.cel.errors import EvaluationError
from understudy.cel.types import Type, struct
from understudy.cel.values import INT_MAX, INT_MIN, Value, parses
from understudy.machinery.golang.text import parse_int
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

_SHAPE = regex(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_NUMBER = regex(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]*)", re.ASCII)
_EXPONENT = regex(r"[eE][+-]?[0-9]+", re.ASCII)
# The exponents of suffixes: of 10 for decimal ones, of 2 for binary ones.
_DECIMAL = {suffix: 3 * power for power, suffix in enumerate(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], -3)}
_BINARY = {suffix: 10 * power for power, suffix in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], 1)}
_MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LARGEST = Fraction(2**63 - 1)
_MAX_EXPONENT = 1000
_MAX_DIGITS = 2000  # of either side of the point: Python refuses to parse numbers of more than 4300


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """The value of a `resource.Quantity`; two notations of one value are equal.

    `scale` is the power of 10 that Go counts it in as a 64-bit integer, None if it does not fit one: `2000m` counts
    thousandths, and so is no integer. One that was `computed` cannot be the right side of `==`, as upstream.
    """

    value: Fraction
    scale: int | None = field(default=0, compare=False)
    computed: bool = field(default=False, compare=False)
    cel_type: ClassVar[Type] = struct("kubernetes.Quantity")

    @staticmethod
    @cache_short_texts(4096)
    def parse(text: str) -> Quantity:
        """Return the quantity of a text such as `1500m`, `2Gi` or `1e3`, rounded up to nano.

        Binary ones are limited to 2^63-1. Raises `EvaluationError`.
        """
        match = _SHAPE.fullmatch(text)
        if match is None or not text:
            raise EvaluationError(_MALFORMED)
        number, suffix = match[1], match[2]
        if _EXPONENT.fullmatch(suffix):
            exponent = _written_exponent(suffix[1:])
        elif suffix in _DECIMAL or suffix in _BINARY:
            exponent = _DECIMAL[suffix] if suffix in _DECIMAL else _BINARY[suffix]
        else:
            raise EvaluationError("unable to parse quantity's suffix")
        if not _NUMBER.fullmatch(number):
            raise EvaluationError(_MALFORMED)
        binary = suffix in _BINARY
        number = _shortened(number)
        exact = Fraction(number) * Fraction(2 if binary else 10) ** exponent
        scale = _scale(number.lstrip("+-"), exponent, binary)
        if scale is not None:
            return Quantity(exact, scale)
        nanos = exact * 10**9
        rounded = Fraction(math.ceil(nanos) if nanos >= 0 else math.floor(nanos), 10**9)
        return Quantity(max(min(rounded, _LARGEST), -_LARGEST) if binary else rounded, None)

    def __eq__(self, other: object) -> bool:
        """Report whether another quantity has the same value. Raises `EvaluationError` for a computed one."""
        if not isinstance(other, Quantity):
            return False
        if other.computed:
            raise EvaluationError("no such overload")
        return self.value == other.value

    @property
    def is_integer(self) -> bool:
        """Report whether the value is counted in ones or more and fits a signed 64-bit integer."""
        return self.scale is not None and self.scale >= 0 and INT_MIN <= self.value <= INT_MAX

    def plus(self, other: Quantity) -> Quantity:
        """Return the sum, counted in the smaller scale if it fits a 64-bit integer (`int64Amount.Add`)."""
        total = self.value + other.value
        if self.scale is None or other.scale is None:
            return Quantity(total, None, computed=True)
        if not other.value or not self.value:
            return Quantity(total, self.scale if not other.value else other.scale, computed=True)
        scale = min(self.scale, other.scale)
        counts = [value / Fraction(10) ** scale for value in (self.value, other.value, total)]
        fits = all(INT_MIN <= count <= INT_MAX for count in counts)
        return Quantity(total, scale if fits else None, computed=True)

    def negated(self) -> Quantity:
        """Return the quantity with the other sign. The smallest 64-bit integer stays, as in Go."""
        if self.scale is not None and self.value / Fraction(10) ** self.scale == INT_MIN:
            return self
        return Quantity(-self.value, self.scale)

    def as_integer(self) -> int:
        """Return the value as an integer. Raises `EvaluationError` if it is none."""
        if not self.is_integer:
            raise EvaluationError("cannot convert value to integer")
        return int(self.value)


def _written_exponent(text: str) -> int:
    """Return the exponent of 10 that a quantity is written with, held to where values still can be told apart.

    Raises `EvaluationError` for one that is not an int64.
    """
    try:
        return max(min(parse_int(text), _MAX_EXPONENT), -_MAX_EXPONENT)
    except ValueError:
        raise EvaluationError("unable to parse quantity's suffix") from None


def _shortened(number: str) -> str:
    """Return a number with as many digits as Python reads: the others of an integer are left out, since nothing is
    compared with such an amount, and those of a fraction only round it up."""
    sign = number[0] if number[0] in "+-" else ""
    whole, _, fraction = number.removeprefix(sign).partition(".")
    whole = whole.lstrip("0")[:_MAX_DIGITS] or "0"
    if len(fraction) > _MAX_DIGITS:
        fraction = fraction[:_MAX_DIGITS] + ("1" if fraction[_MAX_DIGITS:].strip("0") else "")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _scale(number: str, exponent: int, binary: bool) -> int | None:
    """Return the scale in which Go counts a quantity as a 64-bit integer, None if it does not (`ParseQuantity`)."""
    whole, _, fraction = number.partition(".")
    whole = whole.lstrip("0") or "0"
    if binary:
        precision = -1 if fraction else 15 - len(whole) - exponent * 3 // 10 - 1
        scale, factor = 0, 2**exponent
    else:
        precision = 18 - len(whole) - len(fraction)
        scale, factor = exponent - len(fraction), 1
    fits = precision >= 0 and scale >= -9 and int(whole + fraction) * factor <= INT_MAX
    return scale if fits else None


def _as_float(quantity: Quantity) -> float:
    """Return the nearest float, an infinite one if the value is larger than any (`AsApproximateFloat64`)."""
    try:
        return float(quantity.value)
    except OverflowError:
        return math.inf * _sign(quantity.value)


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_to_quantity": Quantity.parse,
    "is_quantity_string": parses(Quantity.parse),
    "quantity_add": Quantity.plus,
    "quantity_add_int": lambda one, other: one.plus(Quantity(Fraction(other))),
    "quantity_sub": lambda one, other: one.plus(other.negated()),
    "quantity_sub_int": lambda one, other: one.plus(Quantity(Fraction(other)).negated()),
    "quantity_compare_to": lambda one, other: _sign(one.value - other.value),
    "quantity_is_greater_than": lambda one, other: one.value > other.value,
    "quantity_is_less_than": lambda one, other: one.value < other.value,
    "quantity_is_integer": lambda quantity: quantity.is_integer,
    "quantity_get_int": Quantity.as_integer,
    "quantity_get_float": _as_float,
    "quantity_sign": lambda quantity: _sign(quantity.value),
}
