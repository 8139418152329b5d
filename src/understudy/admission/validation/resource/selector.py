"""Validation of CEL selectors of devices, in requests and classes."""

from __future__ import annotations

from understudy.admission.validation.resource.release_rules import Limits
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, internal, invalid, required, too_long
from understudy.machinery.validation.names import size


def validate(selector: Obj, path: Path, limits: Limits) -> Errors:
    """Check one selector, `{"cel": {"expression": …}}` (upstream: `validateSelector`)."""
    cel = selector.get("cel")
    if cel is None:
        return [required(path.child("cel"))]
    return _expression(cel.get("expression", ""), path.child("cel", "expression"), limits)


def _expression(expression: str, path: Path, limits: Limits) -> Errors:
    if limits.expression_length is not None and size(expression) > limits.expression_length:
        return [too_long(path, limits.expression_length)]
    from understudy.admission import cel  # here, since most objects have no selector

    compiled = cel.compile(expression, cel.device_environment(limits.release, stored=limits.known))
    if compiled.error is not None:
        refused = internal(path, compiled.error) if compiled.error_kind == "internal" else None
        return [refused or invalid(path, expression, compiled.error)]
    if limits.expression_cost is not None and compiled.cost > limits.expression_cost:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []
