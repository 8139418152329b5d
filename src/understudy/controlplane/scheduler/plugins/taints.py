"""Taints and tolerations of nodes. https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.machinery.golang.text import parse_int
from understudy.machinery.types import Obj

KEEPS_OUT = ("NoSchedule", "NoExecute")  # effects because of which no pod is put on a node


def first_untolerated(taints: Iterable[Obj], tolerations: Iterable[Obj], *, comparing: bool) -> Obj | None:
    """Return the first taint that keeps a pod with these tolerations out. Upstream: `FindMatchingUntoleratedTaint`.

    comparing  whether the operators Lt and Gt are known (feature gate TaintTolerationComparisonOperators)
    """
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint["effect"] in KEEPS_OUT and not is_tolerated(taint, tolerations, comparing=comparing):
            return taint
    return None


def is_tolerated(taint: Obj, tolerations: Iterable[Obj], *, comparing: bool) -> bool:
    """Report whether one of the tolerations tolerates a taint."""
    return any(_tolerates(toleration, taint, comparing) for toleration in tolerations)


def _tolerates(toleration: Obj, taint: Obj, comparing: bool) -> bool:
    """Report whether a toleration tolerates a taint; an empty key or effect stands for any.

    Upstream: `ToleratesTaint`.
    """
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    value, tainted = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(value == tainted)
        case "Lt" | "Gt" as operator:
            return comparing and _compares(tainted, operator, value)
    return False


def _compares(tainted: str, operator: str, value: str) -> bool:
    """Report whether the number of a taint is less, or greater, than that of a toleration; false if one is none."""
    try:
        number, limit = parse_int(tainted), parse_int(value)
    except ValueError:
        return False
    return number < limit if operator == "Lt" else number > limit
