"""Certificate signing requests, trust bundles, certificates of pods: strategies, table cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.kinds.certificates import signing_requests, trust_bundles
from understudy.kinds.certificates.durations import count_duration
from understudy.kinds.certificates.signing_requests import APPROVED, DENIED, GROUP
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, age, field, human_duration, labels, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Conversion, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    SPEC_RESET,
    STATUS_RESET,
    Update,
    copy_stored,
    keep_metadata,
    keep_stored,
    resource_strategy,
    status_strategy,
    update_steps,
)
from understudy.machinery.releases.version import V1_35, V1_37, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field
from understudy.machinery.validation.field import Errors

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


def _pod_certificate_row(request: Obj, now: float) -> list[Any]:
    """Return the cells of a request for a pod's certificate."""
    spec = request.get("spec", {})
    states = [c.get("type") for c in nested_field(request, "status", "conditions", default=[])]
    decided = [state for state in states if state in ("Issued", "Denied", "Failed")]
    texts = (spec.get(key, "") for key in ("podName", "serviceAccountName", "nodeName", "signerName"))
    cells = [name(request), *texts, decided[-1] if decided else "Pending"]
    return [*cells, labels(spec.get("unverifiedUserAnnotations"))]


def _default_pod_certificate(request: Obj, ctx: Context) -> None:
    """Set the defaults of a request for a pod's certificate, in place."""
    default_if_nil(request.setdefault("spec", {}), "maxExpirationSeconds", 86400)


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
    """Return the strategy of updates.

    reset  the fields that they cannot change
    may    what `signing_requests.update` allows them
    """
    return Strategy(
        prepare_for_update=update_steps(*prepare),
        validate_update=signing_requests.update(**may),
        reset_fields={"": reset},
    )


# The validation of PodCertificateRequests is imported when it is first needed: it imports cryptography, and slowly.


def _pod_certificate_errors(obj: Obj, ctx: Context) -> Errors:
    from understudy.kinds.certificates import pod_certificates

    return pod_certificates.create(obj, ctx)


def _pod_certificate_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    from understudy.kinds.certificates import pod_certificates

    return pod_certificates.same_spec(obj, old, ctx)


def _pod_certificate_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    from understudy.kinds.certificates import pod_certificates

    return pod_certificates.status_update(obj, old, ctx)


_BARE_KEY = ("pkixPublicKey", "proofOfPossession")


def _with_no_bare_key(request: Obj) -> Obj:
    """Return a PodCertificateRequest of v1, where keys come in a certificate signing request only, as internal."""
    return {**request, "spec": {**dict.fromkeys(_BARE_KEY), **(request.get("spec") or {})}}


def _with_bare_key_of(request: Obj, existing: Obj) -> Obj:
    """Return a PodCertificateRequest of v1 as internal, with the key that an existing one has."""
    spec, kept = request.get("spec") or {}, existing.get("spec") or {}
    return {**request, "spec": {**spec, **{name: kept.get(name) for name in _BARE_KEY}}}


def _without_bare_key(request: Obj) -> Obj:
    """Return a PodCertificateRequest as v1 has it; a bookmark of them has no spec."""
    spec = {name: value for name, value in (request.get("spec") or {}).items() if name not in _BARE_KEY}
    return {**request, "spec": spec} if spec else request


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    main = _strategy(keep_stored("spec", "status"), reset=(("spec",), ("status",)))
    return {
        (GROUP, "CertificateSigningRequest"): Behavior(
            strategy=replace(
                main,
                prepare_for_create=_set_requester,
                validate=signing_requests.create,
                validate_metadata=signing_requests.METADATA.created,
            ),
            status=replace(
                _strategy(
                    keep_stored("spec"),
                    _keep_decisions,
                    _set_condition_times,
                    reset=(("spec",), ("status", "conditions")),
                    signs=True,
                ),
                after_update=count_duration,
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
        ),
        (GROUP, "ClusterTrustBundle"): Behavior(
            strategy=Strategy(
                validate_metadata=trust_bundles.metadata,
                validate=trust_bundles.create,
                validate_update=trust_bundles.update,
                unconditional_update=False,
            ),
            selectable={"spec.signerName": field("spec", "signerName")},
            table_row=lambda bundle, now: [name(bundle), field("spec", "signerName")(bundle) or NONE],
        ),
        (GROUP, "PodCertificateRequest"): Behavior(
            conversions={"v1": Conversion(_with_no_bare_key, _without_bare_key, into=_with_bare_key_of)},
            defaults=_default_pod_certificate,
            strategy=resource_strategy(
                GROUP,
                "v1beta1" if version >= V1_35 else "v1alpha1",
                "PodCertificateRequest",
                validate=_pod_certificate_errors,
                validate_update=all_of(CORE.updated, _pod_certificate_changes),
                unconditional_update=False,
                reset_fields=STATUS_RESET if version >= V1_37 else {},
            ),
            status=status_strategy(
                keep_metadata(*RESET_FOR_STATUS),
                validate_update=_pod_certificate_status,
                unconditional_update=False,
                reset_fields=METADATA_RESET if version >= V1_37 else SPEC_RESET,
            ),
            selectable={f"spec.{name}": field("spec", name) for name in ("signerName", "podName", "nodeName")},
            table_row=_pod_certificate_row,
        ),
    }
