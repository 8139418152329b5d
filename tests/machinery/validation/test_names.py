"""Validation of names: labels, subdomains, qualified names, path segments."""

from __future__ import annotations

import pytest

from understudy.machinery.validation import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a-1", []),
        ("1", []),
        ("a" * 63, []),
        ("a" * 64, ["must be no more than 63 characters"]),
        ("a.b", ["must not contain dots"]),
        ("A", [LABEL]),
        ("a-", [LABEL]),
        ("", [LABEL]),
        ("a\n", [LABEL]),
        ("é" * 32, ["must be no more than 63 characters", LABEL]),  # 64 bytes
    ],
)
def test_dns_label(value: str, texts: list[str]) -> None:
    assert names.dns_label_texts(value) == texts


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a.b-c.1", []),
        ("a..b", [SUBDOMAIN]),
        ("a.", [SUBDOMAIN]),
        ("a" * 254, ["must be no more than 253 characters"]),
    ],
)
def test_dns_subdomain(value: str, texts: list[str]) -> None:
    assert names.dns_subdomain_texts(value) == texts


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("Name_1.x", []),
        ("example.com/Name", []),
        ("", ["name part must be non-empty", f"name part {QUALIFIED}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", f"name part {QUALIFIED}"]),
        ("A/b", [f"prefix part {SUBDOMAIN}"]),
        ("a b", [f"name part {QUALIFIED}"]),
        ("x" * 64, ["name part must be no more than 63 characters"]),
        (
            "a/b/c",
            [f"a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_qualified_name(value: str, texts: list[str]) -> None:
    assert names.qualified_name_texts(value) == texts


@pytest.mark.parametrize(
    ("name", "prefix", "valid"),
    [
        ("a-", True, True),
        ("a-", False, False),
        ("-", True, False),
        ("a.-", True, True),
        ("ab--", True, True),
        ("A-", True, True),
    ],
)
def test_generate_name_may_end_with_dash(name: str, prefix: bool, valid: bool) -> None:
    """A generateName may end with a dash: what comes before the last letter and the dash must be valid."""
    assert (names.subdomain_name(name, prefix) == []) is valid


@pytest.mark.parametrize(
    ("name", "prefix", "texts"),
    [
        (".", False, ["may not be '.'"]),
        ("..", True, []),
        ("a/%", False, ["may not contain '/'", "may not contain '%'"]),
        ("A:b", False, []),
    ],
)
def test_path_segment_name(name: str, prefix: bool, texts: list[str]) -> None:
    assert names.path_segment_name(name, prefix) == texts


def test_go_lower_maps_single_characters() -> None:
    """Go maps each character to one; Python would make two characters of a dotted capital I."""
    assert names.go_lower("GPU.\u0130O") == "gpu.io"
