"""Certificate signing requests: strategies of the resource, its status and its approval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation import certificates
from understudy.admission.validation.certificates import APPROVED, DENIED, GROUP
from understudy.apiserver.kinds.common import Update, copy_stored, keep_stored, update_steps
from understudy.apiserver.kinds.printers import NONE, age, field, human_duration, name
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field

# Fields that the server sets to the user of the request.
REQUESTER = ("username", "uid", "groups", "extra")


def _condition(request: Obj) -> str:
    """Return the condition cell: `Approved,Issued` (upstream: `extractCSRStatus`)."""
    types = {c.get("type") for c in nested_field(request, "status", "conditions", default=[])}
    text = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        text += ",Failed"
    return text + ",Issued" if nested_field(request, "status", "certificate") else text


def _row(request: Obj, now: float) -> list[Any]:
    """Return the cells of a certificate signing request."""
    spec = request.get("spec", {})
    seconds = spec.get("expirationSeconds")
    return [
        name(request),
        age(request, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _condition(request),
    ]


def _set_requester(request: Obj, ctx: Context) -> None:
    """Set the requester to the user of the request; a client cannot set it."""
    spec = request.setdefault("spec", {})
    for key in REQUESTER:
        spec.pop(key, None)
    spec |= ctx.requester
    request["status"] = {}


def _set_condition_times(request: Obj, old: Obj, ctx: Context) -> None:
    """Set the times of conditions: when they were written, and since when they have their status (upstream:
    `populateConditionTimestamps`)."""
    before = nested_field(old, "status", "conditions", default=[])
    for condition in nested_field(request, "status", "conditions", default=[]):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or ctx.now
        same = (c for c in before if all(c.get(key) == condition.get(key) for key in ("type", "status")))
        since = next((c["lastTransitionTime"] for c in same if c.get("lastTransitionTime")), ctx.now)
        condition["lastTransitionTime"] = condition.get("lastTransitionTime") or since


def _keep_decisions(request: Obj, old: Obj, ctx: Context) -> None:
    """Keep stored Approved and Denied conditions, if there are as many as before (upstream: `preserveConditions`)."""
    conditions, before = (nested_field(obj, "status", "conditions", default=[]) for obj in (request, old))
    for kind in (APPROVED, DENIED):
        mine, theirs = ([i for i, c in enumerate(items) if c.get("type") == kind] for items in (conditions, before))
        if len(mine) == len(theirs):
            for i, j in zip(mine, theirs, strict=True):
                conditions[i] = dict(before[j])


def _keep_all_but_conditions(request: Obj, old: Obj, ctx: Context) -> None:
    """Keep all of the stored request but its conditions."""
    conditions = nested_field(request, "status", "conditions")
    copy_stored(request, old, "spec", "status")
    if conditions is None:
        request["status"].pop("conditions", None)
    else:
        request["status"]["conditions"] = conditions


def _strategy(*prepare: Update, reset: tuple[tuple[str, ...], ...], **may: bool) -> Strategy:
    """Return the strategy of updates. `reset` are the fields that they cannot change, `may` what `certificates.update`
    allows them."""
    return Strategy(
        prepare_for_update=update_steps(*prepare),
        validate_update=certificates.update(**may),
        reset_fields={"": reset},
    )


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    main = _strategy(keep_stored("spec", "status"), reset=(("spec",), ("status",)))
    return {
        (GROUP, "CertificateSigningRequest"): Behavior(
            strategy=replace(
                main,
                prepare_for_create=_set_requester,
                validate=certificates.create,
                validate_metadata=certificates.METADATA.created,
            ),
            status=_strategy(
                keep_stored("spec"),
                _keep_decisions,
                _set_condition_times,
                reset=(("spec",), ("status", "conditions")),
                signs=True,
            ),
            subresources={
                "approval": _strategy(
                    _set_condition_times,
                    _keep_all_but_conditions,
                    reset=(("spec",), ("status", "certificate")),
                    approves=True,
                )
            },
            selectable={"spec.signerName": field("spec", "signerName")},
            table_row=_row,
        )
    }
