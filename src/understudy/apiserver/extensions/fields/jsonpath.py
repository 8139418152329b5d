"""JSONPath as client-go has it (`k8s.io/client-go/util/jsonpath`), for columns and selectable fields.

    path = parse(".spec.conditions[?(@.type=='Ready')].status")      # without the braces of a template
    path({"spec": {"conditions": [{"type": "Ready", "status": "True"}]}})        # ["True"]

Missing keys are no error: nothing is found.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from understudy.machinery.util.regex import regex

Step = Callable[[list[Any]], list[Any]]
Find = Callable[[Any], list[Any]]

_FIELD = regex(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_KEY = regex(r"'([^']*)'")
_SLICE = regex(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_NUMBER = regex(r"[+-]?[\d.]*")
_COMPARISON = regex(r"([^!<>=]+)([!<>=]+)(.+)")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
}


class JSONPathError(ValueError):
    """A path that cannot be parsed, or that does not fit the value it is asked for."""


def parse(text: str) -> Find:
    """Return the function that finds the values at a path. Raises JSONPathError, as the function does."""
    steps = _steps(text)

    def find(value: Any) -> list[Any]:
        return _walk(steps, [value])

    return find


def _walk(steps: Iterable[Step], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


def _steps(text: str) -> list[Step]:
    """Return the steps of a path, each from a list of values to the next (`parseInsideAction`)."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        char = text[at]
        if text.startswith("[?(", at):
            step, at = _filter(text, at)
        elif text.startswith("..", at):
            name, at = _name(text, at + 2)
            steps.append(_recursive)
            step = _field(name) if name else _same
        elif char in " @$":
            step, at = _same, at + 1
        elif char == "[":
            end = text.find("]", at)
            if end < 0:
                raise JSONPathError("unterminated array")
            step, at = _array(text[at + 1 : end]), end + 1
        elif char in "\"'":
            step, at = _quoted(text, at)
        elif char == ".":
            name, at = _name(text, at + 1)
            step = _wildcard if name == "*" else _field(name)
        elif char in "+-" or char.isdigit():
            match = _NUMBER.match(text, at)
            assert match is not None
            step, at = _constant(_number(match[0])), match.end()
        elif char in ("t", "f"):
            name, at = _name(text, at)
            if name not in ("true", "false"):
                raise JSONPathError(f"unrecognized identifier {name}")
            step = _constant(name == "true")
        else:
            raise JSONPathError(f"unrecognized character in action: {char}")
        steps.append(step)
    return steps


def _same(values: list[Any]) -> list[Any]:
    return values


def _constant(value: Any) -> Step:
    return lambda values: [value for _ in values]


def _number(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JSONPathError(f"cannot parse number {text}") from None


def _name(text: str, at: int) -> tuple[str, int]:
    """Return the name at a place, unescaped, and the place after it."""
    match = _FIELD.match(text, at)
    assert match is not None
    return match[0].replace("\\", ""), match.end()


def _quoted(text: str, at: int) -> tuple[Step, int]:
    """Return the step of a quoted text, which stands for itself."""
    end = at + 1
    while end < len(text) and (text[end] != text[at] or text[end - 1] == "\\"):
        end += 1
    if end == len(text):
        raise JSONPathError("unterminated quoted string")
    return _constant(text[at + 1 : end].replace("\\", "")), end + 1


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return value if isinstance(value, list) else list(value.encode()) if isinstance(value, str) else []


def _wildcard(values: list[Any]) -> list[Any]:
    return [child for value in values for child in _children(value)]


def _recursive(values: list[Any]) -> list[Any]:
    """Return all values that have children, and such children of theirs (`evalRecursive`)."""
    out: list[Any] = []
    for value in values:
        children = _children(value)
        if children:
            out += [value, *_recursive(children)]
    return out


def _array(text: str) -> Step:
    """Return the step of what is in brackets: a key, an index, a slice, or several of them."""
    parts = text.split(",")
    if len(parts) > 1:
        union = [_array(part.strip(" ")) for part in parts]
        return lambda values: [value for step in union for value in step(values)]
    if key := _KEY.fullmatch(text):
        steps = _steps(f".{key[1]}")
        return lambda values: _walk(steps, values)
    bounds = _SLICE.fullmatch(":" if text == "*" else text)
    if bounds is None:
        raise JSONPathError(f"invalid array index {text}")
    first, last, step = (None if part is None else part.removeprefix(":") for part in bounds.groups())
    return _slice(_bound(first), _bound(last), _bound(step), is_index=last is None)


def _bound(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise JSONPathError(f"array index {text} is not a number") from None


def _slice(first: int | None, last: int | None, step: int | None, *, is_index: bool) -> Step:
    def take(values: list[Any]) -> list[Any]:
        out: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JSONPathError("is not array or slice")
            length, start = len(value), first or 0
            end = start + 1 if is_index else length if last is None else last
            if start < 0:
                start += length
            if end < 0 or (end == 0 and is_index):
                end += length
            if start == end:
                return out
            if not 0 <= start < length or not start <= end <= length:
                raise JSONPathError(f"array index out of bounds: index {start}, length {length}")
            if step is not None and step <= 0:
                raise JSONPathError("step must be > 0")
            out += value[start : end : step or 1]
        return out

    return take


def _filter(text: str, at: int) -> tuple[Step, int]:
    """Return the step of `[?(…)]`, and the place after it."""
    end, quote = at + 3, ""
    while end < len(text) and (text[end] != ")" or quote):
        if text[end] in "\"'" and text[end - 1] != "\\":
            quote = "" if quote == text[end] else quote or text[end]
        end += 1
    if text[end : end + 2] != ")]":
        raise JSONPathError("unterminated filter")
    comparison = _COMPARISON.fullmatch(text[at + 3 : end])
    if comparison is None:
        steps = _steps(text[at + 3 : end])
        return _select(lambda item: bool(_walk(steps, [item]))), end + 2
    left, right = _steps(comparison[1]), _steps(comparison[3])
    if comparison[2] not in _COMPARE:
        raise JSONPathError(f"unrecognized filter operator {comparison[2]}")
    compare = _COMPARE[comparison[2]]
    return _select(lambda item: _is_true(compare, _walk(left, [item]), _walk(right, [item]))), end + 2


def _select(passes: Callable[[Any], bool]) -> Step:
    def select(values: list[Any]) -> list[Any]:
        if not all(isinstance(value, list) for value in values):
            raise JSONPathError("is not array or slice and cannot be filtered")
        return [item for value in values for item in value if passes(item)]

    return select


def _is_true(compare: Callable[[Any, Any], Any], left: list[Any], right: list[Any]) -> bool:
    """Compare the values of both sides of a filter. Raises JSONPathError for values of different types."""
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise JSONPathError("can only compare one element at a time")
    if type(left[0]) is not type(right[0]) or not isinstance(left[0], str | int | float):
        raise JSONPathError("incompatible types for comparison")
    return bool(compare(left[0], right[0]))
