"""Validation of an attribute of a device: one value, or a list of them (KEP-5491)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, too_long
from understudy.machinery.validation.names import size

ATTRIBUTE = "k8s.io/kubernetes/pkg/apis/resource.DeviceAttribute"
VALUE_LENGTH = 64

# Lists of values, and their types in Go.
LISTS = {"bools": "[]bool", "ints": "[]int64", "strings": "[]string", "versions": "[]string"}

_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SEMVER = regex(  # semver.org, 2.0.0
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
)


def validate(attribute: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check that an attribute has a value, or values, of one type (upstream: `validateDeviceAttribute`)."""
    errors: Errors = []
    if (text := attribute.get("string")) is not None:
        errors += _string(text, path.child("string"))
    if (version := attribute.get("version")) is not None:
        errors += _version(version, path.child("version"))
    empty = empty_lists(attribute)
    for name in LISTS:
        errors += _list(attribute.get(name) or (), name, name in empty, path.child(name))
    values = sum(value is not None for value in attribute.values()) + len(empty)
    if values == 0:
        errors.append(rules.no_value(path))
    elif values > 1:
        errors.append(invalid(path, Typed(attribute, ATTRIBUTE), rules.one_value))
    return errors


def has_lists(attribute: Obj) -> bool:
    """Report whether an attribute has a list of values, if only an empty one."""
    return any(attribute.get(name) is not None for name in LISTS) or bool(empty_lists(attribute))


def empty_lists(attribute: Obj) -> tuple[str, ...]:
    """Return the names of lists that were sent empty."""
    empty: tuple[str, ...] = getattr(attribute, "empty", ())
    return empty


def number_of_values(attribute: Obj) -> int:
    """Return the number of values that an attribute counts for: the items of its list, or one."""
    return sum(len(attribute.get(name) or ()) for name in LISTS) or 1


def _list(values: Sequence[Any], name: str, is_empty: bool, path: Path) -> Errors:
    if is_empty:
        return [invalid(path, Typed([], LISTS[name]), "must not be empty if specified")]
    check = {"strings": _string, "versions": _version}.get(name)
    return [error for i, value in enumerate(values) for error in check(value, path.index(i))] if check else []


def _string(text: str, path: Path) -> Errors:
    return [too_long(path, VALUE_LENGTH)] if size(text) > VALUE_LENGTH else []


def _version(version: str, path: Path) -> Errors:
    errors = []
    if not _SEMVER.fullmatch(version):
        errors.append(invalid(path, version, "must be a string compatible with semver.org spec 2.0.0"))
    return errors + _string(version, path)
