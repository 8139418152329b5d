"""Events, stored once and served in two API groups; the core form is the internal one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from understudy.kinds.common.compose import as_on_create, no_metadata_validation
from understudy.kinds.common.printers import field, name, since
from understudy.kinds.core.events import validation
from understudy.kinds.declarations.kind import Behavior, Conversion, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field

# {name in core/v1: name in events.k8s.io/v1}
RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
BACK = {new: core for core, new in RENAMED.items()}
# Fields that core/v1 always shows, with their empty values.
ALWAYS = {"reportingComponent": "", "reportingInstance": ""}


def _from_core(event: Obj) -> Obj:
    """Return the event in the form of events.k8s.io, which leaves empty fields out."""
    empty = {key for key, value in ALWAYS.items() if event.get(key) == value}
    return {RENAMED.get(key, key): value for key, value in event.items() if key not in empty}


def _to_core(event: Obj) -> Obj:
    """Return the event in the form of core/v1."""
    return {**ALWAYS, **{BACK.get(key, key): value for key, value in event.items()}}


def _row(event: Obj, now: float) -> list[Any]:
    """Return the cells of an event (upstream: `printEvent`)."""
    first = since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = since(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    number = event.get("count", 0) or 1
    series = event.get("series")
    if series is not None:
        last, number = since(series.get("lastObservedTime"), now), series.get("count", 0)
    involved = event.get("involvedObject", {})
    kind = involved.get("kind", "").lower()
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{involved['name']}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        _source(event),
        event.get("message", "").strip(),
        first,
        number,
        name(event),
    ]


def _source(event: Obj) -> str:
    """Return the reporter of an event, with its instance (upstream: `formatEventSource`)."""
    component = nested_field(event, "source", "component") or event.get("reportingComponent", "")
    instance = nested_field(event, "source", "host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _reporter(event: Obj) -> str:
    """Return the component that reported an event, the value of the field label `source`."""
    return str(nested_field(event, "source", "component") or event.get("reportingComponent", ""))


INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
OTHERS: dict[str, Callable[[Obj], str]] = {"reason": field("reason"), "type": field("type")}
SELECTABLE = {f"involvedObject.{key}": field("involvedObject", key) for key in INVOLVED} | {
    **OTHERS,
    "reportingComponent": field("reportingComponent"),
    "source": _reporter,
}
SELECTABLE_NEW = {f"regarding.{key}": field("involvedObject", key) for key in INVOLVED} | {
    **OTHERS,
    "reportingController": field("reportingComponent"),
}

OLD = Strategy(
    create_on_update=True,
    validate_metadata=no_metadata_validation,
    validate=validation.create,
    validate_update=as_on_create(validation.create),
)
NEW = Strategy(
    create_on_update=True,
    validate_metadata=no_metadata_validation,
    validate=validation.create_new,
    validate_update=validation.update_new,
)

EVENTS = Behavior(table_row=_row, cached=False, expires=True, default_gc_policy="Unsupported")


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return both kinds by (group, kind): they have the same objects, whose internal form is that of core/v1."""
    conversions = {"v1": Conversion(_to_core, _from_core)}
    return {
        ("", "Event"): replace(EVENTS, strategy=OLD, selectable=SELECTABLE),
        ("events.k8s.io", "Event"): replace(EVENTS, strategy=NEW, selectable=SELECTABLE_NEW, conversions=conversions),
    }
