"""Cells of table rows: ages, durations, selectors, containers, as the real server prints them.

Upstream: `k8s.io/kubernetes/pkg/printers/internalversion`. A row is a function of an object and the time at which the
table is made (`now`, seconds since 1970). The rows of each kind are in its group's `strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from understudy.machinery.types import Obj, nested_field
from understudy.machinery.util.clock import parse_timestamp

UNKNOWN, NONE, UNSET = "<unknown>", "<none>", "<unset>"

Row = Callable[[Obj, float], list[Any]]


def human_duration(duration: float) -> str:
    """Return a duration in seconds with two or three significant figures: 118s, 5m, 3d4h, 2y10d (upstream:
    `duration.HumanDuration`)."""
    seconds = int(duration)
    if seconds < -1:
        return "<invalid>"
    minutes, hours = seconds // 60, seconds // 3600
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _two_units(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    """Return a duration in two units, the smaller one only if it is not zero."""
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def since(timestamp: str | None, now: float) -> str:
    """Return the age of a time, "<unknown>" without one. Upstream: `translateTimestampSince`."""
    return human_duration(now - parse_timestamp(timestamp)) if timestamp else UNKNOWN


def age(obj: Obj, now: float) -> str:
    """Return the age of an object."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def name(obj: Obj) -> str:
    """Return the name of an object."""
    return str(obj["metadata"].get("name", ""))


def name_or_default(is_default: Callable[[Obj], bool]) -> Callable[[Obj], str]:
    """Return a cell with the name of a class, marked as the default if it is one."""
    return lambda obj: f"{name(obj)} (default)" if is_default(obj) else name(obj)


def created_at(obj: Obj, now: float) -> list[Any]:
    """Return the row of kinds that have no printer upstream: name and time of creation."""
    return [name(obj), obj["metadata"].get("creationTimestamp") or "0001-01-01T00:00:00Z"]


def row(*cells: Callable[[Obj], Any], first: Callable[[Obj], str] = name) -> Row:
    """Return a row: the name of the object, `cells`, and its age."""
    return lambda obj, now: [first(obj), *(cell(obj) for cell in cells), age(obj, now)]


def field(*path: str, default: Any = "") -> Callable[[Obj], Any]:
    """Return a cell with the value of one field."""
    return lambda obj: nested_field(obj, *path, default=default)


def count(*path: str) -> Callable[[Obj], int]:
    """Return a cell with the number of entries of a list or map."""
    return lambda obj: len(nested_field(obj, *path, default=()))


def containers(pod_spec: Obj | None) -> list[str]:
    """Return two cells: the names and the images of a pod spec's containers."""
    items = nested_field(pod_spec, "containers", default=[])
    return [",".join(c.get("name", "") for c in items), ",".join(c.get("image", "") for c in items)]


def labels(values: Mapping[str, str] | None) -> str:
    """Return labels as a cell: `a=1,b=2`, sorted, or `<none>` (upstream: `labels.FormatLabels`)."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector_text(selector: Obj | None) -> str:
    """Return a LabelSelector in the syntax of query parameters, sorted by key; "" for none and for one that selects
    everything."""
    terms = [
        (key, f"{key}={value}") for key, value in sorted(nested_field(selector, "matchLabels", default={}).items())
    ]
    terms += [(e["key"], _expression(e)) for e in nested_field(selector, "matchExpressions", default=[])]
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def _expression(expression: Obj) -> str:
    """Return one of the matchExpressions in the syntax of query parameters."""
    key = expression["key"]
    values = ",".join(sorted(expression.get("values") or []))
    texts = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return str(texts.get(expression.get("operator", ""), ""))


def selector(label_selector: Obj | None) -> str:
    """Return a LabelSelector as a cell: `a=1,b in (x,y)`, or `<none>`."""
    return selector_text(label_selector) or NONE


def shortened(items: Sequence[str], limit: int, total: int | None = None, separator: str = ",") -> str:
    """Return the first `limit` items; ` + N more...` counts the others of `total`."""
    total = len(items) if total is None else total
    text = separator.join(items[:limit])
    return f"{text} + {total - limit} more..." if total > limit else text


def addresses(ingress: Iterable[Obj]) -> str:
    """Return the addresses of a load balancer's status: IPs, or host names where there are none (upstream:
    `ingressLoadBalancerStatusStringer`)."""
    return ",".join(sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""}))


def true_false(value: bool | None) -> str:
    """Return a boolean as a cell, `<unset>` for None."""
    return UNSET if value is None else str(value)
