"""Integers in texts, as Go's strconv reads them."""

from __future__ import annotations

import pytest

from understudy.machinery.golang.text import parse_int

LONG = "1" * 5000


@pytest.mark.parametrize(
    ("text", "signed", "number"),
    [
        ("0", True, 0),
        ("-0", True, 0),
        ("+7", True, 7),
        ("007", True, 7),
        ("0" * 5000 + "7", True, 7),
        ("9223372036854775807", True, 2**63 - 1),
        ("-9223372036854775808", True, -(2**63)),
        ("18446744073709551615", False, 2**64 - 1),
    ],
)
def test_integers_of_64_bits(text: str, signed: bool, number: int) -> None:
    """Signs, leading zeros and every integer of 64 bits are read."""
    assert parse_int(text, signed=signed) == number


@pytest.mark.parametrize(
    ("text", "signed", "message"),
    [
        ("", True, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("1_0", True, 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("\u0663", True, 'strconv.ParseInt: parsing "\u0663": invalid syntax'),
        ("1\n", True, r'strconv.ParseInt: parsing "1\n": invalid syntax'),
        ("+1", False, 'strconv.ParseUint: parsing "+1": invalid syntax'),
        ("9223372036854775808", True, 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
        ("18446744073709551616", False, 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        (f"-{LONG}", True, f'strconv.ParseInt: parsing "-{LONG}": value out of range'),
    ],
)
def test_malformed_integers_are_refused(text: str, signed: bool, message: str) -> None:
    """Wrong syntax and numbers out of range are refused in Go's words, in texts of any length."""
    with pytest.raises(ValueError, match="strconv") as error:
        parse_int(text, signed=signed)
    assert str(error.value) == message
