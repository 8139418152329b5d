"""The labels of namespaces that PodSecurity reads: a level and a version of it for each of three modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from understudy.machinery.validation.field import Errors, FieldError, Path, invalid

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
ENFORCE, AUDIT, WARN = MODES = ("enforce", "audit", "warn")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,17})", re.ASCII)


class Standard(NamedTuple):
    """A level at a version; `minor` of Kubernetes 1, None for the latest."""

    level: str = PRIVILEGED
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    def stricter(self, other: Standard) -> bool:
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    """What is refused, told to auditors, warned of. What is not labelled is privileged."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()


ANYTHING = Policy()


def policy(labels: Mapping[str, str] | None) -> tuple[Policy, Errors]:
    """The policy of a namespace, and what is wrong with its labels: a level that is none is taken for the strictest
    where it is enforced, and for none elsewhere. What is enforced is warned of, unless another level is."""
    if not labels or not any(label.startswith(PREFIX) for label in labels):
        return ANYTHING, []
    errors: Errors = []
    found = Policy(*(_standard(mode, labels, errors) for mode in MODES))
    if f"{PREFIX}{WARN}" not in labels and labels.get(f"{PREFIX}{ENFORCE}") in LEVELS:
        found = found._replace(warn=_as_enforced(found, labels))
    return found, errors


def _standard(mode: str, labels: Mapping[str, str], errors: Errors) -> Standard:
    level = labels.get(f"{PREFIX}{mode}", PRIVILEGED)
    if level not in LEVELS:
        errors.append(_wrong(mode, level, f"must be one of {', '.join(LEVELS)}"))
        level = RESTRICTED if mode == ENFORCE else PRIVILEGED
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    match = _VERSION.fullmatch(version)
    if version != "latest" and not match:
        errors.append(_wrong(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
    return Standard(level, int(match[1]) if match else None)


def _wrong(name: str, value: str, why: str) -> FieldError:
    return invalid(Path("metadata", "labels").key(f"{PREFIX}{name}"), value, why)


def _as_enforced(found: Policy, labels: Mapping[str, str]) -> Standard:
    if not found.enforce.stricter(found.warn):
        return found.warn
    versioned = f"{PREFIX}{WARN}-version" in labels
    return found.enforce._replace(minor=found.warn.minor) if versioned else found.enforce
