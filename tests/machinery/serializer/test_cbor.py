"""CBOR: data items, the types that need more than JSON's, and limits."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.machinery.releases.version import V1_32, V1_37
from understudy.machinery.serializer.cbor.decode import decode, decode_any, decode_unstructured
from understudy.machinery.serializer.cbor.encode import encode, encode_item, write_any
from understudy.machinery.serializer.cbor.items import diagnose, parse
from understudy.machinery.serializer.json import DecodeError
from understudy.machinery.typeinfo.go_types import Schemas

SCHEMAS = Schemas.of(V1_37)
SECRET = SCHEMAS.kind("", "v1", "Secret")


def item(text: str) -> Any:
    """Return the item of hexadecimal digits."""
    return parse(bytes.fromhex(text), V1_37)


# Of RFC 8949, appendix A: hexadecimal digits, value, and diagnostic notation where it is not that of the value.
EXAMPLES = [
    ("00", 0, "0"),
    ("17", 23, "23"),
    ("1818", 24, "24"),
    ("1903e8", 1000, "1000"),
    ("1a000f4240", 1000000, "1000000"),
    ("1b000000e8d4a51000", 1000000000000, "1000000000000"),
    ("3903e7", -1000, "-1000"),
    ("f90000", 0.0, "0.0"),
    ("f98000", -0.0, "-0.0"),
    ("f93e00", 1.5, "1.5"),
    ("f90001", 5.960464477539063e-8, "5.960464477539063e-8"),
    ("fa47c35000", 100000.0, "100000.0"),
    ("fb7e37e43c8800759c", 1.0e300, "1.0e+300"),
    ("f4", False, "false"),
    ("f6", None, "null"),
    ("40", "", "h''"),
    ("4449455446", "IETF", "'IETF'"),
    ("60", "", '""'),
    ("62225c", '"\\', r'"\"\\"'),
    ("62c3bc", "ü", r'"\u00fc"'),
    ("64f0908591", "\U00010151", r'"\ud800\udd51"'),
    ("80", [], "[]"),
    ("98190102030405060708090a0b0c0d0e0f101112131415161718181819", [*range(1, 26)], ""),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}, '{"a": 1, "b": [2, 3]}'),
    ("5f42010243030405ff", "\x01\x02\x03\x04\x05", r"(_ '\u0001\u0002', '\u0003\u0004\u0005')"),
    ("7f657374726561646d696e67ff", "streaming", '(_ "strea", "ming")'),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]], "[_ 1, [2, 3], [_ 4, 5]]"),
    ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}, '{_ "Fun": true, "Amt": -2}'),
    ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z", '0("2013-03-21T20:04:00Z")'),
    ("c11a514b67b0", "2013-03-21T20:04:00Z", "1(1363896240)"),
    ("c1fb41d452d9ec200000", "2013-03-21T20:04:00.5Z", "1(1363896240.5)"),
    ("d74401020304", "01020304", r"23('\u0001\u0002\u0003\u0004')"),
]


@pytest.mark.parametrize(("digits", "value", "text"), EXAMPLES)
def test_examples_of_the_standard_are_read(digits: str, value: Any, text: str) -> None:
    """Every data item becomes the JSON value that Go makes of it, and is quoted in diagnostic notation."""
    actual = decode_any(item(digits))
    assert (actual, type(actual)) == (value, type(value))
    assert diagnose(item(digits)) == (text or diagnose(item(digits)))


@pytest.mark.parametrize(
    ("value", "digits"),
    [
        ("a", "4161"),
        (23, "17"),
        (24, "1818"),
        (-(2**63), "3b7fffffffffffffff"),
        (1.0, "f93c00"),
        (100000.0, "fa47c35000"),
        (1.1, "fb3ff199999999999a"),
        (65504.0, "f97bff"),
        ({"a": [None, True]}, "a1416182f6f5"),
    ],
)
def test_values_are_written_in_the_fewest_bytes(value: Any, digits: str) -> None:
    """Strings are byte strings, and floats are as short as they can be."""
    assert write_any(value).hex() == digits


def test_bytes_are_tagged_and_read_again() -> None:
    """A []byte is a byte string with tag 22, which an unstructured reader sees as base64."""
    body = encode({"metadata": {"name": "s"}, "data": {"a": "AAE="}}, SECRET)
    assert body.endswith(bytes.fromhex("4161d6420001"))
    assert decode(parse(body, V1_37), SECRET)[0]["data"] == {"a": "AAE="}
    assert decode_unstructured(parse(body, V1_37)) == {"metadata": {"name": "s"}, "data": {"a": "AAE="}}


def test_order_of_fields_differs_each_time() -> None:
    """The first pairs of a body with short strings stand at its end now and then, whichever these are."""
    value = {"kind": "a" * 30, "apiVersion": "", "metadata": {}, "n": 1}
    bodies = {encode(value, None) for _ in range(200)}
    assert len(bodies) == 3
    assert all(decode_unstructured(parse(body, V1_37)) == value for body in bodies)


@pytest.mark.parametrize("value", [{}, {"n": 1}, {"a": "b" * 256}, {"a": []}, {"k" * 256: "a"}])
def test_other_pairs_stay_where_they_are(value: Any) -> None:
    """Pairs whose length is not in their first bytes are not moved, and there may be none."""
    assert {encode(value, None) for _ in range(20)} == {b"\xd9\xd9\xf7" + encode_item(value, None)}


def test_maps_of_many_pairs_are_turned() -> None:
    """The head of a map of more than 23 pairs stays in front."""
    value = {str(n): str(n) for n in range(300)}
    bodies = [encode(value, None) for _ in range(20)]
    assert len({*bodies}) > 1
    assert all(decode_unstructured(parse(body, V1_37)) == value for body in bodies)


def test_float_fields_are_floats_though_whole() -> None:
    """A float64 is written as a float, an integer that is as large as an integer."""
    schema = SCHEMAS.struct("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaProps")
    assert encode_item({"maximum": 3, "maxLength": 3}, schema).endswith(b"Gmaximum\xf9\x42\x00ImaxLength\x03")


@pytest.mark.parametrize(("version", "levels"), [(V1_32, 64), (V1_37, 10_000)])
def test_nesting_is_limited(version: Any, levels: int) -> None:
    """A body nests as deep as its release reads, and no deeper."""
    body = b"\x81" * (levels - 1) + b"\x80"
    assert len(diagnose(parse(body, version))) == 2 * levels
    with pytest.raises(DecodeError, match=f"exceeded max nested level {levels}"):
        parse(b"\x81" + body, version)


@pytest.mark.parametrize("text", ["2013-03-21T20:04:00.000Z", "2013-03-21T20:04:00.50+01:00"])
def test_tagged_times_lose_zeros(text: str) -> None:
    """The text of a tagged time has no zeros at the end of its fraction, and keeps its zone."""
    body = b"\xc0" + bytes((0x78, len(text))) + text.encode()
    assert decode_any(parse(body, V1_37)) == text.replace(".000", "").replace(".50", ".5")


def test_years_beyond_the_standard_are_refused() -> None:
    """A time of the year 10000 has no text."""
    with pytest.raises(DecodeError, match="year outside of range"):
        decode_any(item("c11b0000003afff44180"))
