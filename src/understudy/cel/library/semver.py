"""Semantic versions, such as `semver("1.2.3")`, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from understudy.cel.errors import EvaluationError
from understudy.cel.types import Type, struct
from understudy.cel.values import Value, parses
from understudy.machinery.types import dataclass
from understudy.machinery.util.caches import cache_short_texts

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") | _DIGITS


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; build metadata is kept but ignored in comparisons (semver.org, item 10)."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...]
    build: tuple[str, ...]
    cel_type: ClassVar[Type] = struct("kubernetes.Semver")

    @staticmethod
    @cache_short_texts(4096)
    def parse(text: str) -> Semver:
        """Return the version of a text such as `1.2.3-rc.1+build`, strictly.

        Raises `EvaluationError` with the texts of `github.com/blang/semver`, which Kubernetes uses.
        """
        if not text:
            raise EvaluationError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise EvaluationError("No Major.Minor.Patch elements found")
        major, minor = _parse_number("Major", parts[0]), _parse_number("Minor", parts[1])
        patch, plus, build = parts[2].partition("+")
        patch, dash, pre = patch.partition("-")
        return Semver(
            major,
            minor,
            _parse_number("Patch", patch),
            tuple(_parse_prerelease(part) for part in pre.split(".")) if dash else (),
            tuple(_parse_build(part) for part in build.split(".")) if plus else (),
        )

    def precedence_key(self) -> Any:
        """Return a key that sorts as versions do: a pre-release before its release, numbers before words."""
        pre = [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.pre]
        return self.major, self.minor, self.patch, not self.pre, pre

    def __str__(self) -> str:
        pre = f"-{'.'.join(map(str, self.pre))}" if self.pre else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.precedence_key() == other.precedence_key()

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.pre))


def _parse_number(name: str, text: str) -> int:
    """Return one of the three numbers of a version."""
    if not set(text) <= _DIGITS:
        raise EvaluationError(f'Invalid character(s) found in {name.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f'{name} number must not contain leading zeroes "{text}"')
    if not text:
        raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if int(text[:25]) >= 2**64:
        raise EvaluationError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _parse_prerelease(text: str) -> int | str:
    """Return one part of a pre-release, numeric ones as integers."""
    if not text:
        raise EvaluationError("Prerelease is empty")
    if set(text) <= _DIGITS:
        if len(text) > 1 and text[0] == "0":
            raise EvaluationError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return int(text[:25])
    if set(text) <= _LETTERS:
        return text
    raise EvaluationError(f'Invalid character(s) found in prerelease "{text}"')


def _parse_build(text: str) -> str:
    """Return one part of the build metadata."""
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not set(text) <= _LETTERS:
        raise EvaluationError(f'Invalid character(s) found in build meta data "{text}"')
    return text


def _compare(one: Semver, other: Semver) -> int:
    return int(one.precedence_key() > other.precedence_key()) - int(one.precedence_key() < other.precedence_key())


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_to_semver": Semver.parse,
    "is_semver_string": parses(Semver.parse),
    "semver_compare_to": _compare,
    "semver_is_greater_than": lambda one, other: _compare(one, other) > 0,
    "semver_is_less_than": lambda one, other: _compare(one, other) < 0,
    "semver_major": lambda version: version.major,
    "semver_minor": lambda version: version.minor,
    "semver_patch": lambda version: version.patch,
}
