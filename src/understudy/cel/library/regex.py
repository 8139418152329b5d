"""The regular expressions `find` and `findAll`; `matches` is in `standard`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.values import Value
from understudy.machinery.golang import regexp


def _find(text: str, pattern: str) -> str:
    try:
        match = regexp.compile_pattern(pattern).search(text)
    except regexp.PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None
    return match.group() if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        compiled = regexp.compile_pattern(pattern)
    except regexp.PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None
    matches: list[str] = []
    end = -1
    for match in compiled.finditer(text):
        if match.start() < match.end() or match.start() != end:  # Go ignores an empty match right after another
            matches.append(match.group())
        end = match.end()
    return matches if limit < 0 else matches[:limit]


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
