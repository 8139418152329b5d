"""Validation of leases and of the candidates for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.kinds.common.formats import config_key_texts, invalid_texts, nonnegative
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.releases.version import V1_31, V1_32, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import qualified_name_texts

if TYPE_CHECKING:
    from understudy.cel.library.semver import Semver

_SPEC = Path("spec")
_VERSION_NEEDED = "must be specified when `strategy` is 'OldestEmulationVersion'"
_STRATEGIES = ("OldestEmulationVersion",)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a lease (upstream: `ValidateLease`)."""
    spec = obj.get("spec") or {}
    seconds, strategy = spec.get("leaseDurationSeconds"), spec.get("strategy")
    errors: Errors = []
    if seconds is not None and seconds <= 0:
        errors.append(invalid(_SPEC.child("leaseDurationSeconds"), seconds, "must be greater than 0"))
    errors += nonnegative(spec.get("leaseTransitions"), _SPEC.child("leaseTransitions"))
    if strategy is not None:
        errors += _strategy(strategy, _SPEC.child("strategy", "strategy"))
    if spec.get("preferredHolder") and not strategy:
        text = "may only be specified if `strategy` is defined"
        errors.append(forbidden(_SPEC.child("preferredHolder"), text))
    return errors


def candidate_name(name: str, prefix: bool) -> list[str]:
    """Check the name of a LeaseCandidate (upstream: `ValidLeaseCandidateName`)."""
    return config_key_texts(name)


def candidate(obj: Obj, ctx: Context) -> Errors:
    """Check a LeaseCandidate (upstream: `ValidateLeaseCandidateSpec`)."""
    spec = obj.get("spec") or {}
    errors = [] if spec.get("leaseName") else [required(_SPEC.child("leaseName"))]
    texts = {name: spec.get(name, "") for name in ("emulationVersion", "binaryVersion")}
    versions = {name: semver(text) for name, text in texts.items() if text}
    for name, text in texts.items():
        if text and versions[name] is None:
            errors.append(invalid(_SPEC.child(name), text, "must be a valid semantic version"))
        elif not text and name == "binaryVersion" and ctx.release >= V1_32:
            errors.append(required(_SPEC.child(name)))
    emulation, binary = (versions.get(name) for name in texts)
    if len(versions) == len(texts) and _is_older(binary, emulation):
        text = "must be greater than or equal to `emulationVersion`"
        errors.append(invalid(_SPEC.child("binaryVersion"), texts["binaryVersion"], text))
    return errors + _CANDIDATE_STRATEGY[ctx.release](spec, emulation, binary)


def _one_strategy(spec: Obj, emulation: Semver | None, binary: Semver | None) -> Errors:
    strategy, path = spec.get("strategy", ""), _SPEC.child("strategy")
    if not strategy:
        return [required(path)]
    errors = [required(_SPEC.child("emulationVersion"), _VERSION_NEEDED)] if _lacks(strategy, emulation) else []
    return errors + _strategy(strategy, path.child("strategy"))


def _preferred_strategies(spec: Obj, emulation: Semver | None, binary: Semver | None) -> Errors:
    errors: Errors = []
    for i, strategy in enumerate(spec.get("preferredStrategies") or ()):
        for name, version in (("binaryVersion", binary), ("emulationVersion", emulation)):
            errors += [required(_SPEC.child(name), _VERSION_NEEDED)] if _lacks(strategy, version) else []
        errors += _strategy(strategy, _SPEC.child("preferredStrategies").index(i).child("strategy"))
    return errors


_CANDIDATE_STRATEGY = ByRelease({V1_32: _one_strategy, V1_31: _preferred_strategies})


def _lacks(strategy: str, version: Semver | None) -> bool:
    """Report whether a strategy that compares versions has none to compare: 0.0.0 counts as none."""
    return strategy in _STRATEGIES and (version is None or version == type(version)(0, 0, 0, (), ()))


def _is_older(version: Semver | None, other: Semver | None) -> bool:
    """Report whether a version is older than another; none counts as 0.0.0."""
    if other is None:
        return False
    zero = type(other)(0, 0, 0, (), ())
    return bool((version or zero).precedence_key() < other.precedence_key())


def semver(text: str) -> Semver | None:
    """Return a semantic version, None for any other text."""
    from understudy.cel.errors import EvaluationError  # here, since leases are made at every start
    from understudy.cel.library.semver import Semver

    try:
        return Semver.parse(text)
    except EvaluationError:
        return None


def same_lease(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a LeaseCandidate keeps its lease."""
    lease = (obj.get("spec") or {}).get("leaseName", "")
    same = lease == (old.get("spec") or {}).get("leaseName", "")
    return [] if same else [invalid(_SPEC.child("leaseName"), lease, IMMUTABLE)]


def _strategy(value: str, path: Path) -> Errors:
    if "/" in value:
        return invalid_texts(qualified_name_texts(value), value, path)
    return [] if value in _STRATEGIES else [not_supported(path, value, _STRATEGIES)]
