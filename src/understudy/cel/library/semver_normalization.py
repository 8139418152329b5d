"""Semantic versions that are brought into form before they are read: `semver("v1.2", true)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.library.semver import Semver
from understudy.cel.values import Value, parses


def _normalize(text: str) -> str:
    """Return a version without `v` and leading zeros, and with a minor and patch number (`normalizeAndParse`).

    Raises `EvaluationError` for a short version with a pre-release or build.
    """
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, "0", "0")[: max(len(parts), 3)])


def _without_zeros(part: str) -> str:
    """Return a part of a version without its leading zeros, except the one that is needed."""
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part[:1] in tuple("0123456789") else f"0{part}"


def _parse(text: str, normalize: bool) -> Semver:
    return Semver.parse(_normalize(text) if normalize else text)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_bool_to_semver": _parse,
    "is_semver_string_bool": lambda text, normalize: parses(lambda each: _parse(each, normalize))(text),
}
