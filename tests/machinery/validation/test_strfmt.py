"""Formats of strings in schemas."""

from __future__ import annotations

import pytest

from understudy.machinery.releases.version import V1_34, V1_36
from understudy.machinery.validation.strfmt import format_of

UUID = "123e4567-e89b-42d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
        ("byte", ["eA=="], ["", "!", "eA"]),
        ("cidr", ["1.2.3.4/8", "::/0", "1.2.3.4/08"], ["1.2.3.4", "1.2.3.4/33"]),
        ("creditcard", ["4111 1111 1111 1111", "374953669708156"], ["4111 1111 1111 1112", "1"]),
        ("date", ["2020-01-01", "0000-02-29"], ["2020-13-01", "2023-02-29", "2020-01-01T00:00:00Z"]),
        ("date-time", ["2020-01-01T00:00:00Z", "2020-01-01t00:00:00x5+99:99"], ["2020-01-01", "2020-01-01T24:00:00Z"]),
        ("duration", ["1h30m", "3 days", "1w", "2 Weeks"], ["10", "days", "99999999999999999999 s"]),
        ("email", ["a@b", "A B <a@b>", '"x y"@b', "a@[1.2.3.4]", "g: a@b;", "a@b (c)"], ["a", "a@", ".a@b", "a@b>"]),
        ("hexcolor", ["#fff", "ABCDEF"], ["#ffff"]),
        ("hostname", ["example.com", "日本.jp"], ["ex_ample", "a.", f"{'a' * 64}.com"]),
        ("ipv4", ["1.2.3.4", "01.2.3.4"], ["", "::1", "1.2.3"]),
        ("ipv6", ["::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0"]),
        ("isbn", ["978-0321751041", "3 401 01319 X"], ["978-0321751042", "0321751044"]),
        ("isbn10", ["0321751043"], ["978-0321751041"]),
        ("mac", ["00:00:5e:00:53:01", "0000.5e00.5301", "02-00-5e-10-00-00-00-01"], ["00:00:5e", "00:00-5e:00:53:01"]),
        ("password", [""], []),
        ("rgbcolor", ["rgb(1, 2, 3)"], ["rgb(01,2,3)", "RGB(1,2,3)", "rgb(256,0,0)"]),
        ("ssn", ["123-45-6789", "123 45 6789"], ["12-345-6789", "123456789"]),
        ("uri", ["https://a/b", "/x", "urn:isbn:1"], ["x", "a b"]),
        ("uuid", [UUID, UUID.replace("-", ""), UUID.upper()], ["x"]),
        ("uuid4", [UUID], [UUID.replace("42d3", "12d3")]),
        ("k8s-short-name", ["a-1"], ["A", "a.b", "-a", "a" * 64]),
        ("k8s-long-name", ["a-1.b"], ["A.b", "a..b", "a" * 254]),
    ],
)
def test_format_accepts_texts(name: str, valid: list[str], invalid: list[str]) -> None:
    """A format accepts the texts that Go's package accepts, and no others."""
    is_valid = format_of(name, V1_36)
    assert is_valid is not None
    assert [text for text in valid + invalid if is_valid(text)] == valid


def test_names_of_kubernetes_are_formats_since_1_35() -> None:
    """A format is unknown up to the release that introduced it."""
    assert format_of("k8s-short-name", V1_34) is None
    assert format_of("unheard-of", V1_36) is None
