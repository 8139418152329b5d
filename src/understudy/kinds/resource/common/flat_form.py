"""The flat form of v1alpha3 and v1beta1, made of the internal form and back. The internal form is that of v1.

    flat                                             internal
    {"name": "r", "deviceClassName": "gpu"}          {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    {"name": "d", "basic": {"attributes": {…}}}      {"name": "d", "attributes": {…}}

Functions take a spec and return a new one, which shares with it the parts that are the same in both forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.machinery.serializer.json_fast import keep_empty_fields
from understudy.machinery.types import Obj

_OF_EVERY_REQUEST = ("name", "firstAvailable")


# --- claims


def nested_claim(spec: Obj) -> Obj:
    """Return the internal form of a claim's spec."""
    return _with_requests(spec, _nested_request)


def flat_claim(spec: Obj) -> Obj:
    """Return the flat form of a claim's spec."""
    return _with_requests(spec, _flat_request)


def _with_requests(spec: Obj, convert: Callable[[Obj], Obj]) -> Obj:
    devices = spec.get("devices") or {}
    requests = devices.get("requests")
    if not requests:
        return spec
    devices = keep_empty_fields(devices, {**devices, "requests": [convert(request) for request in requests]})
    return keep_empty_fields(spec, {**spec, "devices": devices})


def _nested_request(request: Obj) -> Obj:
    """Return a request with `exactly` if it says which devices it is for (upstream: `hasAnyMainRequestFieldsSet`)."""
    exactly = {name: value for name, value in request.items() if name not in _OF_EVERY_REQUEST}
    nested = {name: request[name] for name in _OF_EVERY_REQUEST if name in request}
    sent_empty = (name not in _OF_EVERY_REQUEST for name in getattr(request, "empty", ()))
    if any(value not in ("", None) for value in exactly.values()) or any(sent_empty):
        nested["exactly"] = keep_empty_fields(request, exactly)
    return keep_empty_fields(request, nested)


def _flat_request(request: Obj) -> Obj:
    """Return a request without `exactly`. Its class is always printed, even if it has none."""
    exactly = request.get("exactly") or {"deviceClassName": ""}
    flat = {name: request[name] for name in _OF_EVERY_REQUEST if name in request}
    return keep_empty_fields(exactly, {**flat, **exactly})


# --- slices


# Fields of devices that stay known to be sent empty when they are converted.
_KEPT_EMPTY = ("bindingConditions", "bindingFailureConditions", "nodeAllocatableResourceMappings")


def nested_slice(spec: Obj, capacity: Callable[[Any], Obj] | None = None, *, as_internal: bool = False) -> Obj:
    """Return the internal form of a slice's spec.

    capacity     converts a capacity, where the version has another form of it
    as_internal  whether the release has the flat form as its internal one: a device without `basic` keeps it as null,
                 to be refused, and all fields stay known that were sent empty
    """

    def device(flat: Obj) -> Obj:
        basic = flat.get("basic")
        if basic is None:
            return {**flat, "basic": None} if as_internal else flat
        nested = keep_empty_fields(basic, {"name": flat["name"], **basic}, None if as_internal else _KEPT_EMPTY)
        return _with_capacities(nested, capacity) if capacity else nested

    return _with_devices(spec, device)


def flat_slice(spec: Obj, capacity: Callable[[Obj], Any] | None = None) -> Obj:
    """Return the flat form of a slice's spec; `capacity` converts capacities to the version's form of them.

    `nodeName` and `allNodes` are no pointers in the flat form: what is empty or false is left out.
    """

    def device(nested: Obj) -> Obj:
        basic = {name: value for name, value in nested.items() if name != "name"}
        if capacity:
            basic = _with_capacities(basic, capacity)
        return {"name": nested["name"], "basic": keep_empty_fields(nested, basic)}

    flat = _with_devices(spec, device)
    if all(flat.get(name, True) for name in ("nodeName", "allNodes")):
        return flat
    return keep_empty_fields(
        flat, {name: value for name, value in flat.items() if value or name not in ("nodeName", "allNodes")}
    )


def _with_devices(spec: Obj, convert: Callable[[Obj], Obj]) -> Obj:
    if not spec.get("devices"):
        return spec
    return keep_empty_fields(spec, {**spec, "devices": [convert(device) for device in spec["devices"]]})


def _with_capacities(device: Obj, convert: Callable[[Any], Any]) -> Obj:
    capacities = device.get("capacity")
    if not capacities:
        return device
    return keep_empty_fields(device, {**device, "capacity": {name: convert(capacities[name]) for name in capacities}})
