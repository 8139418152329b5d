"""Constraints of a claim: attributes that must agree, or differ, among the devices of its requests.

A constraint remembers the devices that were added to it. Every device that it accepted is removed again if the search
gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from understudy.controlplane.allocator.inventory import Device
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj

# The kinds of values in the order in which upstream looks for them.
_KINDS = ("string", "int", "bool", "version")

Typed = tuple[str, Any]  # the kind of a value, and the value


class Requested(Protocol):
    """The names of the request that a device is for: its own (of a subrequest: the parent's), and the full one."""

    base_name: str
    full_name: str


class Constraint(Protocol):
    """A constraint of a claim, with the devices that it has accepted (upstream: `constraint`)."""

    attribute: str
    field: str
    requests: frozenset[str]

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device, or report that it breaks the constraint."""

    def remove(self, request: Requested, device: Device) -> None:
        """Forget a device that was accepted."""

    def refusal(self, device: Device) -> str:
        """Return why a device breaks the constraint now, for people."""


def attribute_of(device: Device, name: str) -> Obj | None:
    """Return an attribute by its full name, or by the name without the domain if that is the driver's.

    Upstream: `lookupAttribute`.
    """
    attribute = device.attributes.get(name)
    if attribute is not None:
        return attribute
    domain, slash, bare = name.partition("/")
    return device.attributes.get(bare) if slash and domain == device.slice.driver else None


def scalar(attribute: Obj) -> Typed | None:
    """Return the kind and the value of an attribute, None for a list."""
    return next(((kind, attribute[kind]) for kind in _KINDS if attribute.get(kind) is not None), None)


def shown(attribute: Obj) -> str:
    """Return the value of an attribute as people write it."""
    typed = scalar(attribute)
    return json.dumps(typed[1] if typed else next(iter(attribute.values()), None))


class _Constraint:
    """The part that both kinds of constraints share."""

    def __init__(self, attribute: str, requests: Iterable[str]) -> None:
        self.attribute = attribute
        self.requests = frozenset(requests)
        self.devices = 0

    def concerns(self, request: Requested) -> bool:
        """Report whether the constraint is about the devices of a request: it names it, its subrequest or none."""
        return not self.requests or request.base_name in self.requests or request.full_name in self.requests

    def has_value(self, device: Device) -> str:
        """Return a text for people about the value that a device has."""
        attribute = attribute_of(device, self.attribute)
        return f"has no attribute {self.attribute}" if attribute is None else f"has {self.attribute} {shown(attribute)}"


class MatchAttribute(_Constraint):
    """A constraint that devices have the same value of an attribute (upstream: `matchAttributeConstraint`)."""

    field = "matchAttribute"

    def __init__(self, attribute: str, requests: Iterable[str]) -> None:
        super().__init__(attribute, requests)
        self.first: Obj = {}
        self._known: dict[Device, tuple[Obj | None, Typed | None]] = {}

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device that has the value of the first one, of the same type. A list agrees with nothing."""
        if not self.concerns(request):
            return True
        known = self._known.get(device)
        if known is None:
            attribute = attribute_of(device, self.attribute)
            known = self._known[device] = attribute, scalar(attribute) if attribute else None
        attribute, typed = known
        if attribute is None:
            return False
        if self.devices == 0:
            self.first = attribute
        elif typed is None or self.first.get(typed[0]) != typed[1]:
            return False
        self.devices += 1
        return True

    def remove(self, request: Requested, device: Device) -> None:
        """Forget a device."""
        if self.concerns(request):
            self.devices -= 1

    def refusal(self, device: Device) -> str:
        """Return why a device breaks the constraint now, for people."""
        others = f", the devices before it have {shown(self.first)}" if self.devices else ""
        return self.has_value(device) + others


class DistinctAttribute(_Constraint):
    """A constraint that devices have different values of an attribute (upstream: `distinctAttributeConstraint`).

    Upstream keeps one value for each request, the latest one, so the devices of one request can be alike if there are
    more than two. 1.34 compares the pointers to the values: only the very same device is not distinct from itself.
    """

    field = "distinctAttribute"

    def __init__(self, attribute: str, requests: Iterable[str], *, same_device_only: bool) -> None:
        super().__init__(attribute, requests)
        self.same_device_only = same_device_only
        self.values: dict[str, tuple[Obj, Device]] = {}

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device whose value no request has yet."""
        if not self.concerns(request):
            return True
        attribute = attribute_of(device, self.attribute)
        if attribute is None or (self.devices and not self._differs(attribute, device)):
            return False
        self.values[request.base_name] = attribute, device
        self.devices += 1
        return True

    def remove(self, request: Requested, device: Device) -> None:
        """Forget the value of a request."""
        if self.concerns(request):
            self.values.pop(request.base_name, None)
            self.devices -= 1

    def refusal(self, device: Device) -> str:
        """Return why a device breaks the constraint now, for people."""
        others = sorted({shown(attribute) for attribute, _ in self.values.values()})
        return self.has_value(device) + (f", as a device before it: {', '.join(others)}" if others else "")

    def _differs(self, attribute: Obj, device: Device) -> bool:
        typed = scalar(attribute)
        if typed is None:
            return not self.values
        kind, value = typed
        return not any(
            other is device if self.same_device_only else known.get(kind) == value
            for known, other in self.values.values()
        )


def read_constraint(constraint: Obj, release: Version, distinct: bool) -> Constraint | None:
    """Return a constraint of a claim, None for one that the allocator does not know.

    distinct  whether it knows `distinctAttribute`
    """
    requests = constraint.get("requests") or ()
    if constraint.get("matchAttribute") is not None:
        return MatchAttribute(constraint["matchAttribute"], requests)
    if distinct and constraint.get("distinctAttribute") is not None:
        same_device_only = release <= V1_34
        return DistinctAttribute(constraint["distinctAttribute"], requests, same_device_only=same_device_only)
    return None
