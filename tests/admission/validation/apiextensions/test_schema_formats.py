"""Formats of strings in the schemas of custom resources."""

from __future__ import annotations

import pytest

from understudy.admission.validation.apiextensions.schema_formats import fits

UUID = "123e4567-e89b-42d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("ipv4", ["1.2.3.4"], ["", "::1", "1.2.3"]),
        ("ipv6", ["::1"], ["1.2.3.4"]),
        ("cidr", ["1.2.3.4/8", "::/0"], ["1.2.3.4"]),
        ("date", ["2020-01-01"], ["2020-13-01", "2020-01-01T00:00:00Z"]),
        ("date-time", ["2020-01-01T00:00:00Z"], ["2020-01-01", "x"]),
        ("byte", ["eA=="], ["", "!", "eA"]),
        ("uri", ["https://a/b", "/x"], ["x", "a b"]),
        ("uuid", [UUID, UUID.replace("-", ""), UUID.upper()], ["x"]),
        ("uuid4", [UUID], [UUID.replace("42d3", "12d3")]),
        ("hexcolor", ["#fff", "ABCDEF"], ["#ffff"]),
        ("ssn", ["123-45-6789"], ["12-345-6789"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
        ("unknown", ["", "x"], []),
    ],
)
def test_format_accepts_texts(name: str, valid: list[str], invalid: list[str]) -> None:
    """A format accepts the texts that kube-apiserver takes as defaults of such a field, and no others."""
    assert [text for text in valid + invalid if fits(text, name)] == valid
