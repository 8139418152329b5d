"""The explanation of an allocation: which device failed which rule, as values, JSON and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from understudy.machinery.types import Obj, dataclass

LISTED = 4  # devices that a line of text names


class Reason(Enum):
    """The rules that a device may fail; `FITS` if it fails none. The values are the names in JSON."""

    FITS = "Fits"
    IN_USE = "InUse"
    SELECTOR = "SelectorFalse"
    SELECTOR_ERROR = "SelectorError"
    NODE = "OtherNode"
    BINDING_CONDITIONS = "BindingConditions"
    PARTITIONS = "PartitionableDevicesOff"
    COUNTERS = "CountersExhausted"
    GROUPS = "GroupsIncompatible"
    OPERATIONS = "OperationsNotSkipped"
    TAINT = "TaintNotTolerated"
    CONSTRAINT = "ConstraintNotSatisfied"
    CAPACITY = "CapacityExhausted"
    UNKNOWN = "UnknownDevice"


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """The rule that a device fails for a request, with a message for people. `device` is `DRIVER/POOL/DEVICE`."""

    device: str
    reason: Reason
    message: str

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {"device": self.device, "reason": self.reason.value, "message": self.message}


@dataclass(frozen=True, slots=True)
class RequestVerdict:
    """The explanation of one request of a claim.

    asked    the number of devices that it asks for, None for all of them
    fitting  the number of devices that fit while nothing else is allocated
    devices  for each device, the rule that it fails
    """

    request: str
    asked: int | None
    fitting: int
    devices: Sequence[DeviceVerdict]

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON; `asked` is `All` for all devices."""
        asked = "All" if self.asked is None else self.asked
        devices = [device.as_json() for device in self.devices]
        return {"request": self.request, "asked": asked, "fitting": self.fitting, "devices": devices}

    def lines(self) -> Iterator[str]:
        """Yield the verdict as lines of text; devices with the same message share a line."""
        if self.asked is None:
            yield f"request {self.request}: asks for all devices, {self.fitting} fit"
        else:
            enough = "" if self.fitting < self.asked else ", but not together with what else is asked for"
            yield f"request {self.request}: {self.fitting} of {self.asked} devices found{enough}"
        by_message: dict[str, list[str]] = {}
        for device in self.devices:
            by_message.setdefault(device.message, []).append(device.device)
        for message, names in by_message.items():
            rest = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            yield f"  {', '.join(names[:LISTED])}{rest}: {message}"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """The explanation of one claim.

    claim     NAMESPACE/NAME
    error     why the claim cannot be allocated on any node, for example an unknown device class, or ""
    requests  the explanations of its requests, none if there is such an error
    """

    claim: str
    error: str = ""
    requests: Sequence[RequestVerdict] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        requests = [request.as_json() for request in self.requests]
        return {"claim": self.claim, **({"error": self.error} if self.error else {}), "requests": requests}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why claims can be allocated on a node, or why not.

    allocations  the AllocationResult of each claim, None if they do not fit
    error        the error of the allocation, or ""
    claims       the explanation of each claim
    pools        pools and slices that are not considered, and why
    """

    node: str
    allocations: Sequence[Obj] | None
    error: str
    claims: Sequence[ClaimVerdict] = field(default=())
    pools: Sequence[str] = field(default=())

    @property
    def fits(self) -> bool:
        """Report whether the claims can be allocated on the node."""
        return self.allocations is not None

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        return {
            "node": self.node,
            "fits": self.fits,
            **({"allocations": list(self.allocations)} if self.allocations is not None else {}),
            **({"error": self.error} if self.error else {}),
            "claims": [claim.as_json() for claim in self.claims],
            "pools": list(self.pools),
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation as text; what belongs to the node is indented."""
        if self.allocations is not None:
            yield f"node {self.node}: fits"
            for claim, allocation in zip(self.claims, self.allocations, strict=True):
                for result in allocation["devices"]["results"]:
                    device = f"{result['driver']}/{result['pool']}/{result['device']}"
                    yield f"  {claim.claim}: request {result['request']} gets {device}"
            return
        yield f"node {self.node}: {self.error or 'does not fit'}"
        for claim in self.claims:
            if claim.error and claim.error != self.error:
                yield f"  {claim.claim}: {claim.error}"
            for request in claim.requests:
                for line in request.lines():
                    yield f"  {claim.claim}: {line}" if not line.startswith(" ") else f"  {line}"
        for note in self.pools:
            yield f"  {note}"
