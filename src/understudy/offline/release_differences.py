"""Compares what releases make of one object that is created: accepted, changed or refused, and why.

    for outcome in outcomes(claim, [Validator.of("1.32"), Validator.of("1.36")]):
        print(outcome.version, outcome.verdict, outcome.reasons)

An object is changed if a field that it sets is dropped or stored with another value, or if a field that it leaves out
gets another default than in the newest release that accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.json import encode
from understudy.machinery.types import dataclass
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.validation.field import Path
from understudy.offline.validator import Validator

ACCEPTED, CHANGED, REFUSED = "accepted", "changed", "refused"
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict of one release on an object, and its reasons: none if the object is accepted as it is."""

    version: Version
    verdict: str
    reasons: tuple[str, ...] = ()


def outcomes(obj: Any, validators: Sequence[Validator]) -> list[Outcome]:
    """Return the outcome of each validator's release, in their order."""
    return call_deeply(lambda: _outcomes(obj, validators))


def _outcomes(obj: Any, validators: Sequence[Validator]) -> list[Outcome]:
    refused = {validator: _refusals(obj, validator) for validator in validators}
    stored = {validator: validator.stored(obj) for validator in validators if not refused[validator]}
    newest = max(stored, key=lambda validator: validator.release.version, default=None)
    out = []
    for validator in validators:
        release = validator.release.version
        if validator not in stored or newest is None:
            out.append(Outcome(release, REFUSED, refused[validator]))
            continue
        sent, result = stored[validator]
        reasons = [*_changes(sent, result), *_other_defaults(sent, result, stored[newest][1], newest.release.version)]
        out.append(Outcome(release, CHANGED if reasons else ACCEPTED, tuple(reasons)))
    return out


def _refusals(obj: Any, validator: Validator) -> tuple[str, ...]:
    """Return the reasons for which a release refuses an object, () if it does not."""
    return tuple(finding.text for finding in validator.findings(obj))


def _changes(sent: Any, stored: Any, path: Path | None = None) -> Iterator[str]:
    """Yield the changes of what was sent: fields that are dropped, values that became others."""
    for below, before, after in _pairs(path, sent, stored):
        if _is_empty(before):
            continue
        if after is _MISSING:
            yield f"{below}: dropped"
        elif isinstance(before, dict | list) and type(before) is type(after):
            yield from _changes(before, after, below)
        elif before != after:
            yield f"{below}: {_json(before)} becomes {_json(after)}"


def _other_defaults(sent: Any, stored: Any, other: Any, newest: Version, path: Path | None = None) -> Iterator[str]:
    """Yield the fields that were not sent and have another value than in the newest release."""
    theirs = dict(_members(other))
    mine = dict(_members(stored))
    for name, before in _members(sent):
        if name in mine and name in theirs:
            yield from _other_defaults(before, mine[name], theirs[name], newest, _below(path, name))
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        ours, newer = mine.get(name, _MISSING), theirs.get(name, _MISSING)
        if ours != newer and name not in dict(_members(sent)):
            yield f"{_below(path, name)}: {_set_to(ours)}, in {newest} {_set_to(newer)}"


def _pairs(path: Path | None, sent: Any, stored: Any) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, value sent, value stored) of each member of what was sent."""
    members = dict(_members(stored))
    for name, value in _members(sent):
        yield _below(path, name), value, members.get(name, _MISSING)


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the members of an object or list with their names or positions; scalars have none."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _below(path: Path | None, name: str | int) -> Path:
    """Return the path of a member."""
    if path is None:
        return Path(str(name))
    return path.index(name) if isinstance(name, int) else path.key(name) if "." in name else path.child(name)


def _is_empty(value: Any) -> bool:
    """Report whether a value is one that Go leaves out, at any depth."""
    if isinstance(value, dict | list):
        return all(_is_empty(member) for _, member in _members(value))
    return value in (None, "", 0, False)


def _set_to(value: Any) -> str:
    return "not set" if value is _MISSING else f"set to {_json(value)}"


def _json(value: Any) -> str:
    return encode(value).decode()
