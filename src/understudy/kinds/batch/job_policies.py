"""Validation of the policies by which a job fails or succeeds, and of lists of indexes."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common.formats import choice, nonnegative, qualified
from understudy.machinery.golang.text import go_quote, parse_int
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import (
    OMITTED,
    Errors,
    FieldError,
    Path,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)

MOST_RULES = MOST_PATTERNS = 20
MOST_EXIT_CODES = 255
MOST_SUCCEEDED = 64 * 1024  # characters

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


class IndexesError(ValueError):
    """A list of indexes is wrong. str(e) says how."""


def without_value(path: Path, detail: str) -> FieldError:
    """Return the error of an invalid value that is not shown."""
    return invalid(path, OMITTED, detail)


def _named(value: str, allowed: Sequence[str], path: Path) -> Errors:
    if not value:
        listed = " ".join(go_quote(name) for name in allowed)
        return [required(path, f"valid values: [{listed}]")]
    return choice(value, allowed, path)


def failure(spec: Obj, path: Path) -> Errors:
    """Check `podFailurePolicy` (upstream: `validatePodFailurePolicy`)."""
    rules, where = spec["podFailurePolicy"].get("rules") or [], path.child("rules")
    errors = [too_many(where, len(rules), MOST_RULES)] if len(rules) > MOST_RULES else []
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for kind in ("containers", "initContainers") for c in pod.get(kind) or ()}
    for i, rule in enumerate(rules):
        errors += _failure_rule(rule, spec, where.index(i), names)
    return errors


def _failure_rule(rule: Obj, spec: Obj, path: Path, names: set[str]) -> Errors:
    action, where = rule.get("action", ""), path.child("action")
    errors: Errors = []
    if action != "FailIndex":
        errors += _named(action, _ACTIONS, where)
    elif spec.get("backoffLimitPerIndex") is None:
        errors.append(invalid(where, action, "requires the backoffLimitPerIndex to be set"))
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        errors += _exit_codes(codes, path.child("onExitCodes"), names)
    errors += _patterns(patterns, path.child("onPodConditions"))
    if codes is not None and patterns:
        errors.append(without_value(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        errors.append(without_value(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _patterns(patterns: Sequence[Obj], path: Path) -> Errors:
    errors = [too_many(path, len(patterns), MOST_PATTERNS)] if len(patterns) > MOST_PATTERNS else []
    for i, pattern in enumerate(patterns):
        errors += qualified(pattern.get("type", ""), path.index(i).child("type"))
        errors += _named(pattern.get("status", ""), _STATUSES, path.index(i).child("status"))
    return errors


def _exit_codes(codes: Obj, path: Path, names: set[str]) -> Errors:
    operator = codes.get("operator", "")
    errors = _named(operator, _OPERATORS, path.child("operator"))
    container = codes.get("containerName")
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(path.child("containerName"), container, text))
    values, where = codes.get("values") or [], path.child("values")
    bad_value = Typed.of_field(codes, "values", "[]int32")
    if not values:
        errors.append(invalid(where, bad_value, "at least one value is required"))
    elif len(values) > MOST_EXIT_CODES:
        errors.append(too_many(where, len(values), MOST_EXIT_CODES))
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(where.index(i), value, "must not be 0 for the In operator"))
        if value in values[:i]:
            errors.append(duplicate(where.index(i), value))
    if values != sorted(values):
        errors.append(invalid(where, bad_value, "must be ordered"))
    return errors


def success(spec: Obj, path: Path) -> Errors:
    """Check `successPolicy` of an indexed job (upstream: `validateSuccessPolicy`)."""
    rules, where = spec["successPolicy"].get("rules") or [], path.child("rules")
    errors: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(where, text))
    if len(rules) > MOST_RULES:
        errors.append(too_many(where, len(rules), MOST_RULES))
    for i, rule in enumerate(rules):
        errors += _success_rule(rule, spec.get("completions") or 0, where.index(i))
    return errors


def _success_rule(rule: Obj, completions: int, path: Path) -> Errors:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: Errors = []
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, text))
    total = 0
    if indexes is not None:
        where = path.child("succeededIndexes")
        if len(indexes) > MOST_SUCCEEDED:
            errors.append(too_long(where, MOST_SUCCEEDED, in_bytes=True))
        try:
            total = count_indexes(indexes, completions)
        except IndexesError as error:
            errors.append(invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if count is None:
        return errors
    where = path.child("succeededCount")
    errors += nonnegative(count, where)
    most = "must be less than or equal to"
    if count > completions:
        errors.append(invalid(where, count, f"{most} {completions} (the number of specified completions)"))
    if indexes is not None and count > total:
        text = f"{most} {total} (the number of indexes in the specified succeededIndexes field)"
        errors.append(invalid(where, count, text))
    return errors


def count_indexes(text: str, completions: int) -> int:
    """Count the indexes in a list such as "0,2-4". Raises IndexesError."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        start, end = interval(part, completions)
        if last is not None and last >= start:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {start}")
        total, last = total + end - start + 1, end
    return total


def interval(text: str, completions: int) -> tuple[int, int]:
    """Return the first and last index of "3" or "2-4". Raises IndexesError."""
    parts = text.split("-")
    if len(parts) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise IndexesError(f"the fragment {go_quote(text)} {rule}")
    numbers = [_index(part, completions) for part in parts]
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def _index(text: str, completions: int) -> int:
    try:
        index = parse_int(text)
    except ValueError:
        raise IndexesError(f"cannot convert string to integer for index: {go_quote(text)}") from None
    if index >= completions:
        raise IndexesError(f"too large index: {go_quote(text)}")
    return index


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """Return the first index in both lists. Parts that cannot be read are left to other checks."""
    lists = [_readable(text, completions) for text in (completed, failed)]
    common = [max(a, c) for a, b in lists[0] for c, d in lists[1] if a <= d and c <= b]
    return min(common, default=None)


def _readable(text: str, completions: int) -> list[tuple[int, int]]:
    intervals = []
    for part in text.split(",") if text else ():
        try:
            intervals.append(interval(part, completions))
        except IndexesError:
            continue
    return intervals
