"""The string functions of cel-go's extension, version 2: `charAt`, `split`, `format`, …."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.library.string_format import formatter, quote
from understudy.cel.limits.budget import check_size
from understudy.cel.values import Value, type_name
from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease, Version

_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_ASCII_UPPER = {value: key for key, value in _ASCII_LOWER.items()}
_SPACES = "\t\n\v\f\r \u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _up_to_the_end(find: Callable[..., int]) -> Callable[..., int]:
    """Return a search from an offset that finds the empty text at the end of the text at the latest (1.37)."""

    def search(text: str, part: str, start: int) -> int:
        if part:
            return find(text, part, start)
        if start < 0:
            raise EvaluationError(f"index out of range: {start}")
        return min(start, len(text))

    return search


# Until 1.33 `lastIndexOf` fails on an empty text.
_FAILS_ON_EMPTY_TEXT = ByRelease({V1_34: False, V1_31: True})


def _last_index_in_text(text: str, part: str) -> int:
    if part and not text:
        raise EvaluationError("index out of range: -1")
    return _last_index_of(text, part)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    count = max(count, -1)
    replaced = text.count(old) if count < 0 else min(text.count(old), count)
    check_size(len(text) + replaced * (len(new) - len(old)))
    return text.replace(old, new, count)


def _join(values: list[str], separator: str = "") -> str:
    for value in values:
        if not isinstance(value, str):
            raise EvaluationError(f"unsupported type conversion from '{type_name(value)}' to string")
    return separator.join(values)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    parts = list(text)
    return parts if limit < 0 or len(parts) <= limit else [*parts[: limit - 1], text[limit - 1 :]]


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of,
    "list_join": _join,
    "list_join_string": _join,
    "string_lower_ascii": lambda text: text.translate(_ASCII_LOWER),
    "string_upper_ascii": lambda text: text.translate(_ASCII_UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "strings_quote": quote,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda text: text.strip(_SPACES),
}


def functions_of(version: Version) -> Mapping[str, Callable[..., Value]]:
    """Return the functions that depend on the release."""
    functions: dict[str, Callable[..., Value]] = {"string_format": formatter(version)}
    if _FAILS_ON_EMPTY_TEXT[version]:
        functions["string_last_index_of_string"] = _last_index_in_text
    if version >= V1_37:
        functions["string_index_of_string_int"] = _up_to_the_end(_index_of)
        functions["string_last_index_of_string_int"] = _up_to_the_end(_last_index_of)
    return functions
