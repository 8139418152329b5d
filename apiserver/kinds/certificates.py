"""Certificate signing requests."""

from __future__ import annotations

from typing import Any

from understudy.apiserver.kind import Context, Rules, Strategy
from understudy.apiserver.kinds.common import keep, main, restore, status
from understudy.apiserver.printing import NONE, age, at, field, human_duration, name
from understudy.apiserver.types import Obj

GROUP = "certificates.k8s.io"
# What the server says of the requester; a client cannot.
REQUESTER = ("username", "uid", "groups", "extra")


def _condition(request: Obj) -> str:
    types = {c.get("type") for c in at(request, "status", "conditions", default=[])}
    text = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        text += ",Failed"
    return text + ",Issued" if at(request, "status", "certificate") else text


def _row(request: Obj) -> list[Any]:
    spec = request.get("spec", {})
    seconds = spec.get("expirationSeconds")
    return [
        name(request),
        age(request),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _condition(request),
    ]


def _requested_by(request: Obj, ctx: Context) -> None:
    spec = request.setdefault("spec", {})
    for key in REQUESTER:
        spec.pop(key, None)
    spec |= ctx.requester
    request["status"] = {}


def _times(request: Obj, old: Obj, ctx: Context) -> None:
    """Conditions that are new or changed say when."""
    before = {c.get("type"): c for c in at(old, "status", "conditions", default=[])}
    for condition in at(request, "status", "conditions", default=[]):
        then = before.get(condition.get("type"), {})
        if not condition.get("lastTransitionTime"):
            same = then.get("status") == condition.get("status") and then.get("lastTransitionTime")
            condition["lastTransitionTime"] = then["lastTransitionTime"] if same else ctx.now
        if not condition.get("lastUpdateTime"):
            unchanged = then and all(then.get(k) == condition.get(k) for k in ("reason", "message", "status"))
            condition["lastUpdateTime"] = then["lastUpdateTime"] if unchanged else ctx.now


def _only_conditions(request: Obj, old: Obj, ctx: Context) -> None:
    conditions = at(request, "status", "conditions")
    restore(request, old, "spec", "status")
    if conditions is not None:
        request.setdefault("status", {})["conditions"] = conditions


def _approve(request: Obj, old: Obj, ctx: Context) -> None:
    _times(request, old, ctx)
    _only_conditions(request, old, ctx)


# PUT of the `approval` subresource.
APPROVAL = Strategy(prepare_for_update=_approve, reset_fields={"": (("spec",), ("status", "certificate"))})


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {
        (GROUP, "CertificateSigningRequest"): Rules(
            strategy=main(GROUP, "v1", "CertificateSigningRequest", _requested_by, prepare_update=keep("spec")),
            status=status(_times),
            subresources={"approval": APPROVAL},
            selectable={"spec.signerName": field("spec", "signerName")},
            row=_row,
        )
    }
