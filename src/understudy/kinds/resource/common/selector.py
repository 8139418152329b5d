"""Validation of CEL selectors of devices, in requests and classes."""

from __future__ import annotations

from understudy.kinds.resource.common.expression import selector_errors
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, required


def validate(selector: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check one selector, `{"cel": {"expression": …}}` (upstream: `validateSelector`).

    stored  whether it is unchanged since it was stored: then it may use what CEL of this very release brought
    """
    cel = selector.get("cel")
    if cel is None:
        return [required(path.child("cel"))]
    return selector_errors(cel.get("expression", ""), path.child("cel", "expression"), rules, stored)
