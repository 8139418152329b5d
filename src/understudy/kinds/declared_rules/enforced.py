"""Joins what declared rules find with what the rules of a kind, written by hand, find.

Upstream: `ValidateDeclarativelyWithMigrationChecks` in k8s.io/apiserver/pkg/registry/rest.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.kinds.declared_rules.checks import CHANGED
from understudy.kinds.declared_rules.program import Program
from understudy.kinds.declared_rules.run import Run
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Errors, ErrorType, FieldError, Path, distinct

# Paths of versions, as those of the internal form that rules written by hand speak of (`NormalizationRule`).
_NORMALIZED = [
    (
        regex(
            r"devices\.requests\[(\d+)\]\."
            r"(deviceClassName|selectors|allocationMode|count|adminAccess|tolerations|derivedAttributes)"
        ),
        r"devices.requests[\1].exactly.\2",
    ),
    (regex(r"^spec\.devices\[(\d+)\]\.basic\."), r"spec.devices[\1]."),
    (regex(r"^spec\.runtimeHandler"), "handler"),
    (regex(r"^spec\.scheduling\."), "scheduling."),
]


def with_declared_errors(kind: Kind, obj: Obj, old: Obj | None, ctx: Context, errors: Errors) -> Errors:
    """Return the errors of a write, those of declared rules included. `old` is the stored object, None for a new one.

    They come last. Those of beta rules take the place of those that say the same: no others have a double.
    """
    if ctx.release < V1_37 or kind.custom is not None:
        return errors
    gvk = kind.gvk(ctx.version)
    steps = Program.of(ctx.release).of_request(gvk.group, gvk.version, gvk.kind, ctx.subresource)
    if steps is None:
        return errors
    new, stored = _versioned(kind, ctx.version, obj), None if old is None else _versioned(kind, ctx.version, old)
    declared = steps(Run(old is not None, _options(ctx, stored)), Path(), new, stored)
    if not declared and not errors:
        return errors
    covered = {_matched_by(one.error, _normalized(one.error.field)) for one in declared if one.stage == "b"}
    kept = [
        error
        for error in distinct(errors, ctx.release)
        if error.undeclared or _matched_by(error, error.field) not in covered
    ]
    return kept + [one.error for one in declared if one.stage != "a"]


def _matched_by(error: FieldError, path: str) -> tuple[ErrorType, str, bool]:
    """Return the key under which errors say the same: type, path, and whether it is about a change."""
    return error.type, path, error.detail in CHANGED


def _versioned(kind: Kind, version: str, obj: Obj) -> Obj:
    conversion = kind.behavior.conversions.get(version)
    return obj if conversion is None else conversion.from_internal(obj)


def _options(ctx: Context, old: Obj | None) -> Callable[[str], bool]:
    """Return whether an option is on: mostly a feature gate of that name."""

    def is_on(name: str) -> bool:
        if name == "HPAScaleToZero" and old is not None and (old.get("spec") or {}).get("minReplicas") == 0:
            return True
        return ctx.gates[Gate(name)]

    return is_on


def _normalized(path: str) -> str:
    for pattern, replacement in _NORMALIZED:
        path = pattern.sub(replacement, path)
    return path
