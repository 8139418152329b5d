"""The functions that count a kind for quotas (`quota.Evaluator`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import Amounts
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.quantity import DECIMAL_SI, Quantity
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.names import label_value_texts


def whole(number: int) -> Quantity:
    """Return a number of objects or devices."""
    return Quantity(number, 0, DECIMAL_SI)


def _nowhere(selector: Obj, obj: Obj) -> bool:
    """Return False: only pods can be in scopes."""
    return False


def _nothing(obj: Obj, resources: Iterable[str], ctx: Context) -> str:
    """Return "": only pods must state the resources that they use."""
    return ""


class ScopeError(ValueError):
    """A scope cannot be evaluated, because a value is no label value, which writes of quotas do not check; or because
    the configuration of the plugin has an operator that is none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The functions that count a kind (`quota.Evaluator`).

    counts    reports whether a quota's resource counts the kind
    measure   returns the amounts that an object uses
    in_scope  reports whether an object is in a scope {"scopeName": …, "operator": …, "values": …}; may raise ScopeError
    missing   returns the error message of an object that omits limited resources, "" if it omits none
    updates   reports, by subresource, whether an updated object (new, stored) is measured again
    """

    counts: Callable[[str, Context], bool]
    measure: Callable[[Obj, Context], Amounts]
    in_scope: Callable[[Obj, Obj], bool] = _nowhere
    missing: Callable[[Obj, Iterable[str], Context], str] = _nothing
    updates: Mapping[str, Callable[[Obj, Obj, Context], bool]] = field(default_factory=dict)


def always(obj: Obj, old: Obj, ctx: Context) -> bool:
    """Report that every update is measured again."""
    return True


def selects(selector: Obj, name: str) -> bool:
    """Report whether the name of a class, "" for none, matches a scope selector. Raises ScopeError."""
    values: list[str] = selector.get("values") or []
    wrong = [
        f"values[{i}][{selector['scopeName']}]: Invalid value: {go_quote(value)}: {text}"
        for i, value in enumerate(values)
        for text in label_value_texts(value)
    ]
    if wrong:
        selector_text = f"{{{selector['scopeName']} {selector['operator']} [{' '.join(values)}]}}"
        why = f"failed to parse and convert selector: {aggregate(wrong)}"
        raise ScopeError(f"error on matching scope {selector_text}: {why}")
    matches = {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": bool(name) and name in values,
        "NotIn": not name or name not in values,
    }
    if (operator := selector["operator"]) not in matches:
        raise ScopeError(f"error on matching scope {selector['scopeName']}: {go_quote(operator)} is no operator")
    return matches[operator]
