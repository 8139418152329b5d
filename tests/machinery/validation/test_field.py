"""Field errors: data until a release words them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from understudy.machinery.releases.version import V1_31, V1_32, Version
from understudy.machinery.validation.bad_values import Difference, Octets, Printed, Typed, Unsigned, Untyped
from understudy.machinery.validation.field import (
    OMITTED,
    Errors,
    FieldError,
    Path,
    duplicate,
    forbidden,
    internal,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

PATH = Path("spec").child("items").index(0)
ENV_VAR = "k8s.io/kubernetes/pkg/apis/core.EnvVar"


@pytest.mark.parametrize(
    ("error", "reason", "body"),
    [
        (not_found(PATH, "a"), "FieldValueNotFound", 'Not found: "a"'),
        (required(PATH), "FieldValueRequired", "Required value"),
        (required(PATH, "why"), "FieldValueRequired", "Required value: why"),
        (duplicate(PATH, "a"), "FieldValueDuplicate", 'Duplicate value: "a"'),
        (invalid(PATH, True, "why"), "FieldValueInvalid", "Invalid value: true: why"),
        (invalid(PATH, None, "why"), "FieldValueInvalid", 'Invalid value: "null": why'),
        (invalid(PATH, OMITTED, "why"), "FieldValueInvalid", "Invalid value: why"),
        (type_invalid(PATH, 1, "why"), "FieldValueTypeInvalid", "Invalid value: 1: why"),
        (not_supported(PATH, "a", []), "FieldValueNotSupported", 'Unsupported value: "a"'),
        (
            not_supported(PATH, "a", ["b", "c"]),
            "FieldValueNotSupported",
            'Unsupported value: "a": supported values: "b", "c"',
        ),
        (forbidden(PATH, "why"), "FieldValueForbidden", "Forbidden: why"),
        (too_many(PATH, 3, 2), "FieldValueTooMany", "Too many: 3: must have at most 2 items"),
        (internal(PATH, "why"), "InternalError", "Internal error: why"),
        (replace(not_found(PATH, "a"), detail="why"), "FieldValueNotFound", 'Not found: "a": why'),
    ],
)
def test_types_are_worded_as_upstream_words_them(error: FieldError, reason: str, body: str) -> None:
    """A cause has the type's reason and the body; the message of a Status has the path in front."""
    assert (error.type.reason, error.body(V1_32)) == (reason, body)
    assert error.text(V1_32) == f"spec.items[0]: {body}"


@pytest.mark.parametrize(
    ("release", "in_bytes", "text"),
    [
        (V1_31, False, "Too long: may not be longer than 63"),
        (V1_31, True, "Too long: must have at most 63 bytes"),
        (V1_32, False, "Too long: may not be more than 63 bytes"),
        (V1_32, True, "Too long: may not be more than 63 bytes"),
    ],
)
def test_lengths_are_worded_by_release(release: Version, in_bytes: bool, text: str) -> None:
    """Errors about lengths are worded in two ways by 1.31, and in one way since."""
    assert too_long(PATH, 63, in_bytes=in_bytes).body(release) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Typed({"name": "a"}, ENV_VAR), 'core.EnvVar{Name:"a", Value:"", ValueFrom:(*core.EnvVarSource)(nil)}'),
        (Typed(["a"], "[]string"), '[]string{"a"}'),
        (Typed(None, "[]string"), "[]string(nil)"),
        (Typed.of_field({}, "names", "[]string"), "[]string(nil)"),
        (Untyped({"a": [1, None, "b"]}), 'map[string]interface {}{"a":[]interface {}{1, interface {}(nil), "b"}}'),
        (Untyped(2**63), "9.223372036854776e+18"),
        (Octets(None), "[]byte(nil)"),
        (Octets(b"\x00\xff"), "[]byte{0x0, 0xff}"),
        (Unsigned(0), "0x0"),
        (Printed("cpu"), "cpu"),
    ],
)
def test_values_are_printed_in_go_syntax(value: object, text: str) -> None:
    """A bad value that is no JSON scalar is printed as Go prints it (%#v, or its String method)."""
    assert invalid(PATH, value, "").body(V1_32) == f"Invalid value: {text}"


def test_a_difference_stands_below_its_detail() -> None:
    """An error about a change ends in the difference of both values."""
    change = Difference("immutable\n", {"name": "a"}, {"name": "b"}, ENV_VAR)
    lines = forbidden(PATH, change).body(V1_32).splitlines()
    assert lines[0] == "Forbidden: immutable"
    assert [line.split()[-1] for line in lines if line[:1] in "+-"] == ['"a",', '"b",']


def test_equal_errors_are_found_before_they_are_worded() -> None:
    """Errors compare by what they say, so that a list of them can be searched."""
    errors: Errors = [invalid(PATH, Typed({"name": "a"}, ENV_VAR), "why")]
    assert invalid(PATH, Typed({"name": "a"}, ENV_VAR), "why") in errors
    assert invalid(PATH, Typed({"name": "b"}, ENV_VAR), "why") not in errors
