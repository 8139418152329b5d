"""Validation of events in the form of core/v1. Events of events.k8s.io and new ones of core/v1 have stricter rules."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common import objectmeta
from understudy.kinds.common.formats import invalid_texts, qualified
from understudy.kinds.context import Context
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Stringer, Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import dns_subdomain_texts, size

_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128}
_NOTE = 1024
_NOT_MATCHING = "does not match event.namespace"
_CORE = "k8s.io/kubernetes/pkg/apis/core."


def create(event: Obj, ctx: Context) -> Errors:
    """Check an event as core/v1 takes it (upstream: `legacyValidateEvent`)."""
    return _any(event, "reportingComponent")


def _any(event: Obj, controller: str) -> Errors:
    namespace, involved = (
        event["metadata"].get("namespace", ""),
        (event.get("involvedObject") or {}).get("namespace", ""),
    )
    errors: Errors = []
    mismatch = invalid(Path("involvedObject", "namespace"), involved, _NOT_MATCHING)
    if not event.get("eventTime"):
        if involved != namespace and (involved or namespace != "default"):
            errors.append(mismatch)
        return errors + invalid_texts(dns_subdomain_texts(namespace), namespace, Path("namespace"))
    if not involved and namespace not in ("default", "kube-system"):
        errors.append(mismatch)
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(required(Path(controller)))
    errors += qualified(reporter, Path(controller))
    for name, limit in _LIMITS.items():
        if not event.get(name):
            errors.append(required(Path(name)))
        elif size(event[name]) > limit:
            errors.append(invalid(Path(name), "", f"can have at most {limit} characters"))
    if size(event.get("message", "")) > _NOTE:
        errors.append(invalid(Path("message"), "", f"can have at most {_NOTE} characters"))
    return errors + invalid_texts(dns_subdomain_texts(namespace), namespace, Path("namespace"))


def create_new(event: Obj, ctx: Context) -> Errors:
    """Check an event as events.k8s.io/v1 takes it (upstream: `ValidateEventCreate`)."""
    errors = _any(event, "reportingController") + objectmeta.CORE.created(event, ctx) + _series(event.get("series"))
    if not event.get("eventTime"):
        errors.append(required(Path("eventTime")))
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid(Path("type"), "", f"has invalid value: {kind}"))
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(name):
            errors.append(invalid(Path(name), "", "needs to be unset"))
    return errors


def _series(series: Obj | None) -> Errors:
    if series is None:
        return []
    errors: Errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid(Path("series.count"), "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required(Path("series.lastObservedTime")))
    return errors


# Immutable fields of an event: (field, its name in errors, its Go type or ""). `reason` is checked twice.
_FIXED = (
    ("involvedObject", "involvedObject", f"{_CORE}ObjectReference"),
    ("reason", "reason", ""),
    ("message", "message", ""),
    ("source", "source", f"{_CORE}EventSource"),
    ("firstTimestamp", "firstTimestamp", "time"),
    ("lastTimestamp", "lastTimestamp", "time"),
    ("count", "count", "number"),
    ("reason", "reason", ""),
    ("type", "type", ""),
    ("eventTime", "eventTime", "time"),
    ("action", "action", ""),
    ("related", "related", f"{_CORE}ObjectReference"),
    ("reportingComponent", "reportingController", ""),
    ("reportingInstance", "reportingInstance", ""),
)


def update_new(event: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that only the series of an event changes (upstream: `ValidateEventUpdate`)."""
    errors = _any(event, "reportingController") + objectmeta.CORE.updated(event, old, ctx)
    if event.get("series") != old.get("series"):
        errors += _series(event.get("series"))
    for name, field, kind in _FIXED:
        value, before = event.get(name), old.get(name)
        if (value or before) and value != before:
            errors.append(invalid(Path(field), _printed(value, kind), objectmeta.IMMUTABLE))
    return errors


def _printed(value: Any, kind: str) -> Any:
    if kind == "time":
        time = f"{value[:10]} {value[11:].rstrip('Z')}" if value else "0001-01-01 00:00:00"
        return Stringer(f"{time} +0000 UTC", value)
    if kind == "number":
        return value or 0
    return Typed(value, kind) if kind and value is not None else value or ""
