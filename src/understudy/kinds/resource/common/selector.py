"""Validation of CEL selectors of devices, in requests and classes."""

from __future__ import annotations

from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, internal, invalid, required, too_long
from understudy.machinery.validation.names import size


def validate(selector: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check one selector, `{"cel": {"expression": …}}` (upstream: `validateSelector`).

    stored  whether it is unchanged since it was stored: then it may use what CEL of this very release brought
    """
    cel = selector.get("cel")
    if cel is None:
        return [required(path.child("cel"))]
    return _expression(cel.get("expression", ""), path.child("cel", "expression"), rules, stored)


def _expression(expression: str, path: Path, rules: ReleaseRules, stored: bool) -> Errors:
    if rules.expression_length is not None and size(expression) > rules.expression_length:
        return [too_long(path, rules.expression_length)]
    from understudy import cel  # here, since most objects have no selector

    compiled = cel.compile(expression, cel.device_environment(rules.release, features=rules.enabled, stored=stored))
    if compiled.error is not None:
        refused = internal(path, compiled.error) if compiled.error_kind == "internal" else None
        return [refused or invalid(path, expression, compiled.error)]
    if rules.expression_cost is not None and compiled.cost > rules.expression_cost:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []
