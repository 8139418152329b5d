"""Evictions and requests for them: strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.objectmeta import CORE, Metadata
from understudy.kinds.common.printers import NONE, UNKNOWN, UNSET, age, human_duration, name, shortened, since
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.kinds.lifecycle import validation
from understudy.kinds.lifecycle.validation import ACTIVE, COMPLETED, ENDED, EVICTED, FAILED
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, condition_of, nested_field
from understudy.machinery.util.clock import parse_timestamp
from understudy.machinery.validation.names import long_name

GROUP = "lifecycle.k8s.io"


def _target(obj: Obj) -> list[str]:
    """Return the cells of what is to be evicted: its name and its kind."""
    pod = nested_field(obj, "spec", "target", "pod")
    return [UNSET, UNSET] if pod is None else [pod.get("name", ""), "Pod"]


def _progress(obj: Obj) -> str:
    """Return the cell of the status (upstream: `resolveEvictionStatusConditions`)."""
    for kind in (EVICTED, FAILED):
        condition = condition_of(obj, kind)
        if condition.get("status") == "True":
            return f"{kind} ({condition.get('reason', '')})"
    return "Progressing" if nested_field(obj, "status", "observedGeneration", default=0) > 0 else "Pending"


def _request_row(request: Obj, now: float) -> list[Any]:
    """Return the cells of an EvictionRequest."""
    spec = request.get("spec") or {}
    who = [spec.get("requester", ""), spec.get("intent", "")]
    return [name(request), *_target(request), _progress(request), *who, age(request, now)]


def _row(eviction: Obj, now: float) -> list[Any]:
    """Return the cells of an Eviction (upstream: `printEviction`)."""
    status = eviction.get("status") or {}
    targets = status.get("targetResponders") or []
    seen = [target for target in targets if target.get("state") == ACTIVE or target.get("state") in ENDED]
    current: Obj = next(iter([target for target in seen[::-1] if target["state"] == ACTIVE] or seen[::-1]), {})
    count = f"{current.get('name', UNSET)} ({len(seen)}/{len(targets)})"
    listed = (one for one in status.get("responders") or () if current and one.get("name") == current.get("name"))
    state, end, *wide = _responder(current, next(listed, None), now)
    who = _requesters(status.get("requesters") or [])
    return [name(eviction), *_target(eviction), _progress(eviction), count, state, end, who, age(eviction, now), *wide]


def _responder(target: Obj, responder: Obj | None, now: float) -> list[str]:
    """Return the cells of a responder: its state, expected end, last sign of life and message."""
    if responder is None:
        return [UNSET, UNKNOWN, UNSET, UNSET]
    state, end = target["state"], "-"
    if state == ACTIVE:
        end = UNKNOWN
        if begun := responder.get("startTime"):
            state = f"Started ({since(begun, now)} ago)"
            end = _expected_end(responder.get("expectedCompletionTime"), now)
    elif state == COMPLETED and (ended := responder.get("completionTime")):
        state = f"{state} ({since(ended, now)} ago)"
    heard = responder.get("heartbeatTime")
    return [state, end, f"{since(heard, now)} ago" if heard else UNSET, responder.get("message", "").strip() or UNSET]


def _expected_end(time: str | None, now: float) -> str:
    if not time:
        return UNKNOWN
    left = parse_timestamp(time) - now
    return f"in {human_duration(left)}" if left > 0 else f"{human_duration(-left)} ago"


def _requesters(requesters: list[Obj]) -> str:
    """Return the cell of those who still ask for the eviction: the first name, and how many others there are."""
    names = sorted(one.get("name", "") for one in requesters if one.get("intent") != "Withdrawn")
    if names:
        return shortened(names, 1)
    return "<withdrawn>" if requesters else NONE


def _status(rule: Any) -> Strategy:
    return status_strategy(
        keep_metadata(*RESET_FOR_STATUS),
        validate_update=rule,
        unconditional_update=False,
        reset_fields=METADATA_RESET,
    )


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    rows = {"Eviction": _row, "EvictionRequest": _request_row}
    rules = {"Eviction": validation.eviction_status, "EvictionRequest": validation.request_status}
    return {
        (GROUP, kind): Behavior(
            strategy=resource_strategy(
                GROUP,
                "v1alpha1",
                kind,
                validate_metadata=Metadata(name=long_name).created,
                validate_update=CORE.updated,
                unconditional_update=False,
                generation=True,
            ),
            status=_status(rules[kind]),
            table_row=rows[kind],
        )
        for kind in rules
    }
