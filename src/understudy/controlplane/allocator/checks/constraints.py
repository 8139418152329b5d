"""Constraints of a claim: attributes that must agree, or differ, among the devices of its requests.

A constraint remembers the devices that were added to it. Every device that it accepted is removed again if the search
gives it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from understudy.controlplane.allocator.checks.attributes import Attributes, Requested, Typed, scalar, shown, value_set
from understudy.controlplane.allocator.inventory import Device
from understudy.controlplane.allocator.rules import Rules
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj


class Constraint(Protocol):
    """A constraint of a claim, with the devices that it has accepted (upstream: `constraint`)."""

    attribute: str
    field: str
    requests: frozenset[str]

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device, or report that it breaks the constraint. Raises AllocationError."""

    def remove(self, request: Requested, device: Device) -> None:
        """Forget a device that was accepted."""

    def refusal(self, request: Requested, device: Device) -> str:
        """Return the reason, for people, that a device breaks the constraint now."""


class _Constraint:
    """The part that all constraints share. `field` is their field in the claim."""

    field = ""

    def __init__(self, attribute: str, requests: Iterable[str], attributes: Attributes) -> None:
        self.attribute = attribute
        self.requests = frozenset(requests)
        self._attributes = attributes

    def concerns(self, request: Requested) -> bool:
        """Report whether the constraint is about the devices of a request: it names it, its subrequest or none."""
        return not self.requests or request.base_name in self.requests or request.full_name in self.requests

    def value_of(self, request: Requested, device: Device) -> Obj | None:
        """Return the attribute of a device that the constraint is about. Raises AllocationError."""
        return self._attributes.of(request, device, self.attribute)

    def has_value(self, request: Requested, device: Device) -> str:
        """Return a text for people about the value that a device has."""
        attribute = self.value_of(request, device)
        return f"has no attribute {self.attribute}" if attribute is None else f"has {self.attribute} {shown(attribute)}"


class MatchAttribute(_Constraint):
    """A constraint that devices have the same value of an attribute (upstream: `matchAttributeConstraint`)."""

    field = "matchAttribute"

    def __init__(self, attribute: str, requests: Iterable[str], attributes: Attributes) -> None:
        super().__init__(attribute, requests, attributes)
        self.devices = 0
        self.first: Obj = {}
        self._known: dict[tuple[Device, str | None], tuple[Obj | None, Typed | None]] = {}

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device that has the value of the first one, of the same type. A list agrees with nothing."""
        if not self.concerns(request):
            return True
        key = device, request.derived.get(self.attribute)
        known = self._known.get(key)
        if known is None:
            attribute = self.value_of(request, device)
            known = self._known[key] = attribute, scalar(attribute) if attribute else None
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

    def refusal(self, request: Requested, device: Device) -> str:
        """Return the reason, for people, that a device breaks the constraint now."""
        others = f", the devices before it have {shown(self.first)}" if self.devices else ""
        return self.has_value(request, device) + others


class CommonValue(_Constraint):
    """A constraint that devices have a value of an attribute in common, which may be a list of values.

    That is `matchAttribute` while the feature for lists is on. `common` has the values in common for each number of
    devices.
    """

    field = "matchAttribute"

    def __init__(self, attribute: str, requests: Iterable[str], attributes: Attributes) -> None:
        super().__init__(attribute, requests, attributes)
        self.common: list[frozenset[Typed]] = []

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device that shares a value with all devices before it."""
        if not self.concerns(request):
            return True
        attribute = self.value_of(request, device)
        values = value_set(attribute) if attribute is not None else frozenset()
        left = values & self.common[-1] if self.common else values
        if left:
            self.common.append(left)
        return bool(left)

    def remove(self, request: Requested, device: Device) -> None:
        """Forget the latest device."""
        if self.concerns(request):
            self.common.pop()

    def refusal(self, request: Requested, device: Device) -> str:
        """Return the reason, for people, that a device breaks the constraint now."""
        others = f", the devices before it have {_listed(self.common[-1])} in common" if self.common else ""
        return self.has_value(request, device) + others


class DistinctAttribute(_Constraint):
    """A constraint that devices have different values of an attribute (upstream: `distinctAttributeConstraint`).

    Up to 1.36 upstream keeps one value for each request, the latest one, so the devices of one request can be alike if
    there are more than two. 1.34 compares the pointers to the values: only the very same device is not distinct from
    itself.
    """

    field = "distinctAttribute"

    def __init__(self, attribute: str, requests: Iterable[str], attributes: Attributes, rules: Rules) -> None:
        super().__init__(attribute, requests, attributes)
        self._same_device_only = rules.release <= V1_34
        self._compares_all = rules.compares_all
        self.devices = 0
        self.values: dict[str | int, tuple[Obj, Device]] = {}

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device whose value no other one has yet."""
        if not self.concerns(request):
            return True
        attribute = self.value_of(request, device)
        if attribute is None or (self.devices and not self._differs(attribute, device)):
            return False
        self.values[self.devices if self._compares_all else request.base_name] = attribute, device
        self.devices += 1
        return True

    def remove(self, request: Requested, device: Device) -> None:
        """Forget the value of a request, or of the latest device."""
        if self.concerns(request):
            self.devices -= 1
            self.values.pop(self.devices if self._compares_all else request.base_name, None)

    def refusal(self, request: Requested, device: Device) -> str:
        """Return the reason, for people, that a device breaks the constraint now."""
        others = sorted({shown(attribute) for attribute, _ in self.values.values()})
        return self.has_value(request, device) + (f", as a device before it: {', '.join(others)}" if others else "")

    def _differs(self, attribute: Obj, device: Device) -> bool:
        typed = scalar(attribute)
        if typed is None:
            return not self.values
        kind, value = typed
        return not any(
            other is device if self._same_device_only else known.get(kind) == value
            for known, other in self.values.values()
        )


class DisjointValues(_Constraint):
    """A constraint that devices have no value of an attribute in common, which may be a list of values.

    That is `distinctAttribute` while the feature for lists is on.
    """

    field = "distinctAttribute"

    def __init__(self, attribute: str, requests: Iterable[str], attributes: Attributes) -> None:
        super().__init__(attribute, requests, attributes)
        self.values: list[frozenset[Typed]] = []

    def add(self, request: Requested, device: Device) -> bool:
        """Accept a device that shares no value with the devices before it."""
        if not self.concerns(request):
            return True
        attribute = self.value_of(request, device)
        values = value_set(attribute) if attribute is not None else frozenset()
        fits = bool(values) and not any(values & others for others in self.values)
        if fits:
            self.values.append(values)
        return fits

    def remove(self, request: Requested, device: Device) -> None:
        """Forget the latest device."""
        if self.concerns(request):
            self.values.pop()

    def refusal(self, request: Requested, device: Device) -> str:
        """Return the reason, for people, that a device breaks the constraint now."""
        others = f", devices before it have {_listed(frozenset().union(*self.values))}" if self.values else ""
        return self.has_value(request, device) + others


def _listed(values: frozenset[Typed]) -> str:
    return ", ".join(sorted(shown({kind: value}) for kind, value in values))


def read_constraint(constraint: Obj, rules: Rules, attributes: Attributes) -> Constraint | None:
    """Return a constraint of a claim, None for one that the allocator does not know."""
    requests = constraint.get("requests") or ()
    match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
    if match is not None:
        return (CommonValue if rules.list_attributes else MatchAttribute)(match, requests, attributes)
    if distinct is None or not rules.knows_capacity:
        return None
    if rules.list_attributes:
        return DisjointValues(distinct, requests, attributes)
    return DistinctAttribute(distinct, requests, attributes, rules)
