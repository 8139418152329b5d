"""The namespace labels that PodSecurity reads: a level and its version for each of three modes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Errors, FieldError, Path, invalid

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
ENFORCE, AUDIT, WARN = MODES = ("enforce", "audit", "warn")
WRONG_LEVEL = f"must be one of {', '.join(LEVELS)}"
WRONG_VERSION = 'must be "latest" or "v1.x"'
_VERSION = regex(r"v1\.(0|[1-9][0-9]{0,17})", re.ASCII)


class Standard(NamedTuple):
    """A level at a version: the minor version of Kubernetes 1, None for the latest."""

    level: str = PRIVILEGED
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    def stricter(self, other: Standard) -> bool:
        """Report whether this level allows less than another one."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    """The standards that are enforced, audited and warned about. Without labels all three are privileged."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()


ANYTHING = Policy()


def policy(labels: Mapping[str, str] | None, defaults: Policy = ANYTHING) -> tuple[Policy, Errors]:
    """Return the policy of a namespace and the errors in its labels (`PolicyToEvaluate`).

    An unknown level counts as restricted if it is to be enforced, else as privileged. Warnings follow the enforced
    level unless a label sets their own. What no label says is as in `defaults`.
    """
    if not labels or not any(label.startswith(PREFIX) for label in labels):
        return defaults, []
    errors: Errors = []
    modes = zip(MODES, defaults, strict=True)
    result = Policy(*(_standard(mode, labels, default, errors) for mode, default in modes))
    if f"{PREFIX}{WARN}" not in labels and labels.get(f"{PREFIX}{ENFORCE}") in LEVELS:
        result = result._replace(warn=_as_enforced(result, labels))
    return result, errors


def _standard(mode: str, labels: Mapping[str, str], default: Standard, errors: Errors) -> Standard:
    """Return the standard of one mode, and append the errors in its labels to `errors`."""
    level = labels.get(f"{PREFIX}{mode}", default.level)
    if level not in LEVELS:
        errors.append(_label_error(mode, level, WRONG_LEVEL))
        level = RESTRICTED if mode == ENFORCE else PRIVILEGED
    version = labels.get(f"{PREFIX}{mode}-version")
    if version is None:
        return Standard(level, default.minor)
    minor = minor_of(version)
    if minor is None and version != "latest":
        errors.append(_label_error(f"{mode}-version", version, WRONG_VERSION))
    return Standard(level, minor)


def minor_of(version: str) -> int | None:
    """Return the minor version in a text such as "v1.25", None for any other text (`ParseVersion`)."""
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


def _label_error(name: str, value: str, why: str) -> FieldError:
    return invalid(Path("metadata", "labels").key(f"{PREFIX}{name}"), value, why)


def _as_enforced(parsed: Policy, labels: Mapping[str, str]) -> Standard:
    """Return the standard of warnings if no label sets it: the enforced one, where that is stricter."""
    if not parsed.enforce.stricter(parsed.warn):
        return parsed.warn
    versioned = f"{PREFIX}{WARN}-version" in labels
    return parsed.enforce._replace(minor=parsed.warn.minor) if versioned else parsed.enforce
