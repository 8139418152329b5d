"""Taints of devices, and the tolerations of requests."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.machinery.types import Obj


def untolerated_taint(taints: Iterable[Obj], tolerations: Iterable[Obj], effects: frozenset[str] | None) -> Obj | None:
    """Return the first taint that keeps a device from being allocated, None if there is none.

    effects  the effects that taints need for that; None for any (upstream: `taintPreventsAllocation`)
    """
    for taint in taints:
        if effects is None or taint.get("effect") in effects:
            if not any(tolerates(toleration, taint) for toleration in tolerations):
                return taint
    return None


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Report whether a toleration tolerates a taint (upstream: `ToleratesTaint`). An empty key or effect is any."""
    if any(toleration.get(name) and toleration[name] != taint.get(name) for name in ("effect", "key")):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
    return False


def taint_text(taint: Obj) -> str:
    """Return a taint as kubectl writes it: `key=value:NoExecute`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint.get('effect', '')}"
