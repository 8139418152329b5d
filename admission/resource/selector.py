"""CEL selectors of devices, in requests and classes."""

from __future__ import annotations

from understudy.admission.field import Errors, FieldError, Path, forbidden, internal, invalid, required
from understudy.admission.names import size
from understudy.admission.resource.limits import Limits
from understudy.apiserver.types import Obj


def validate(selector: Obj, path: Path, limits: Limits) -> Errors:
    """One selector: `{"cel": {"expression": …}}`."""
    cel = selector.get("cel")
    if cel is None:
        return [required(path.child("cel"))]
    return _expression(cel.get("expression", ""), path.child("cel", "expression"), limits)


def _expression(expression: str, path: Path, limits: Limits) -> Errors:
    if limits.expression_length is not None and size(expression) > limits.expression_length:
        return [limits.too_long(path, limits.expression_length)]
    from understudy.admission import cel  # here, since most objects have no selector

    compiled = cel.compile(expression, cel.device_environment(limits.release))
    if compiled.error:
        return [_refused(compiled.error_kind, compiled.error, path, expression)]
    if limits.expression_cost is not None and compiled.cost > limits.expression_cost:
        return [forbidden(path, "too complex, exceeds cost limit")]
    return []


def _refused(kind: str, text: str, path: Path, expression: str) -> FieldError:
    if kind == "internal":
        return internal(path, text)
    return required(path, text) if kind == "required" else invalid(path, expression, text)
