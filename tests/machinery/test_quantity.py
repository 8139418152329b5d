"""Quantities: canonical text, errors, comparison and arithmetic, as in k8s.io/apimachinery."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.machinery.quantity import (
    WRONG_FORMAT,
    WRONG_NUMBER,
    WRONG_SUFFIX,
    Quantity,
    QuantityError,
    canonical_text,
    compare,
    parse,
)

TEXTS = st.one_of(
    st.text("0123456789.+-eEinumkKMGTP", max_size=8),
    st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?", fullmatch=True),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024Ki", "1Mi"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1e19", "10e18"),
        ("1.0000000001", "1000000001n"),
        ("1e-10", "1e-9"),
        (" 1", "1"),
        ("+5", "+5"),
        ("5.", "5."),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("1e0", "1e0"),
        ("1e+3", "1e+3"),
        ("1025Ki", "1025Ki"),
        ("1000", "1k"),
        ("1500m", "1500m"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("100Ei", "9223372036854775807"),
        ("-1.5Gi", "-1536Mi"),
        ("-0", "0"),
        ("+", "0"),
        (".", "0"),
        ("e3", "0"),
        ("1000000000000000000000000", "1"),
        ("1e2147483647", "10e2147483646"),
        ("1e-2147483648", "1e-9"),
    ],
)
def test_canonical_text(text: str, expected: str) -> None:
    """A quantity is written with the suffix that fits it, which some values lose."""
    assert canonical_text(text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", WRONG_FORMAT),
        ("abc", WRONG_FORMAT),
        ("1 Gi", WRONG_FORMAT),
        ("..", WRONG_FORMAT),
        ("1K", WRONG_SUFFIX),
        ("1Gi1", WRONG_SUFFIX),
        ("--1", WRONG_SUFFIX),
        ("1e", WRONG_SUFFIX),
        ("e-10", WRONG_NUMBER),
        (".e-10", WRONG_NUMBER),
        (f"1e{'1' * 5000}", WRONG_SUFFIX),
    ],
)
def test_malformed_quantities_are_refused(text: str, error: str) -> None:
    """A malformed quantity is refused in the words of apimachinery."""
    with pytest.raises(QuantityError) as raised:
        parse(text)
    assert str(raised.value) == error


def test_equality_compares_amounts() -> None:
    """Quantities of the same amount are equal in any spelling, and so is an integer."""
    assert parse("1Gi") == parse("1073741824") == 1073741824
    assert parse("0.5") < parse("501m") < 1
    assert len({parse("1"), parse("1000m")}) == 1


def test_arithmetic_keeps_the_left_format() -> None:
    """A sum is written in the format of its left operand."""
    assert str(parse("1Gi") + parse("1Gi")) == "2Gi"
    assert str(parse("1Gi") - parse("512Mi")) == "512Mi"
    assert str(parse("0") + parse("1Ki")) == "1Ki"


def test_rounding_is_away_from_zero() -> None:
    """A quantity is rounded away from zero."""
    assert str(parse("1.0001").round_up(-3)) == "1001m"
    assert str(parse("-1.0001").round_up(-3)) == "-1001m"
    assert parse("1500m").scaled(0) == 2
    assert parse("2").scaled(-3) == 2000


def test_as_int64_needs_a_whole_number() -> None:
    """A quantity with a fraction is not an int64."""
    assert parse("5k").as_int64() == 5000
    assert parse("500m").as_int64() is None
    assert parse("1e30").as_int64() is None


def test_huge_exponents_are_cheap() -> None:
    """A huge exponent is compared and rounded without writing its zeros out."""
    huge, tiny = parse("1e2147483647"), parse("1e-2147483648")
    assert compare(huge, parse("1Ei")) == 1
    assert compare(tiny, parse("1n")) == 0
    assert huge.scaled(0) > 0


@given(TEXTS)
def test_canonical_text_is_stable(text: str) -> None:
    """The canonical text is read back as the same amount, and only QuantityError is raised."""
    try:
        quantity = parse(text)
    except QuantityError:
        return
    again = parse(str(quantity))
    if quantity.exponent >= -9 and abs(quantity.value) * 10 ** max(quantity.exponent, 0) < 10**21:
        assert again == quantity
    assert str(again) == canonical_text(str(quantity))


@given(TEXTS, TEXTS)
def test_order_is_numeric(left: str, right: str) -> None:
    """Quantities are ordered by their amounts."""
    quantities: list[Quantity] = []
    for text in (left, right):
        try:
            quantities.append(parse(text))
        except QuantityError:
            return
    a, b = quantities
    assert compare(a, b) == -compare(b, a)
    if max(abs(a.exponent), abs(b.exponent)) < 2000:  # beyond, sums are cut off
        assert (a + b) - b == a
