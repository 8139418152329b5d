"""The attributes of devices that constraints compare: those of the device, and those that requests derive of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from understudy.cel.checker.environment import Environment
from understudy.cel.library.semver import Semver
from understudy.cel.values import Value, type_name
from understudy.controlplane.allocator.errors import AllocationError
from understudy.controlplane.allocator.inventory import Device
from understudy.machinery.types import Obj

# The kinds of values in the order in which upstream looks for them.
KINDS = ("string", "int", "bool", "version")
LIST_KINDS = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}

Typed = tuple[str, Any]  # the kind of a value, and the value


class Requested(Protocol):
    """The names of the request that a device is for: its own (of a subrequest: the parent's), and the full one.

    `derived` has the expressions of derived attributes by their names.
    """

    base_name: str
    full_name: str

    @property
    def derived(self) -> Mapping[str, str]:
        """Return the expressions of derived attributes by name."""


class Attributes:
    """Looks up the attributes of devices for requests (upstream: `attributeProvider`).

    environment  that of the expressions of derived attributes
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def of(self, request: Requested, device: Device, name: str) -> Obj | None:
        """Return the attribute of a device for a request, None if there is none: derived ones come first.

        Raises AllocationError for an expression that does not compile or fails.
        """
        expression = request.derived.get(name)
        if expression is None:
            return attribute_of(device, name)
        kept = device.derived.get(expression)
        if kept is None:
            kept = device.derived[expression] = self._derived(expression, device, name)
        return kept

    def _derived(self, expression: str, device: Device, name: str) -> Obj:
        from understudy import cel

        compiled = cel.compile(expression, self._environment)
        if compiled.error is not None:
            raise AllocationError(f"compile derived attribute {name} failed: {compiled.error}")
        try:
            return _as_attribute(compiled.value_for(device.value))
        except (cel.EvaluationError, ValueError) as error:
            raise AllocationError(f"evaluate derived attribute {name} on device {device.id} failed: {error}") from None


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
    return next(((kind, attribute[kind]) for kind in KINDS if attribute.get(kind) is not None), None)


def value_set(attribute: Obj) -> frozenset[Typed]:
    """Return the values of an attribute with their kind; a scalar is a set of one (upstream: `attributeAsSet`)."""
    for name, kind in LIST_KINDS.items():
        if attribute.get(name):
            return frozenset((kind, value) for value in attribute[name])
    typed = scalar(attribute)
    return frozenset() if typed is None else frozenset((typed,))


def shown(attribute: Obj) -> str:
    """Return the value of an attribute as people write it."""
    typed = scalar(attribute)
    return json.dumps(typed[1] if typed else next(iter(attribute.values()), None))


def _as_attribute(value: Value) -> Obj:
    """Return the attribute that has a CEL value. Raises ValueError with upstream's text (`valToDeviceAttribute`)."""
    if not isinstance(value, list):
        kind = _kind(value)
        if not kind:
            raise ValueError(f"unsupported CEL return type: {_go_type(value)}")
        return {kind: _plain(value)}
    if not value:
        return {"strings": []}
    kind = _kind(value[0])
    if not kind:
        raise ValueError(f"unsupported list element type: {_go_type(value[0])}")
    for position, item in enumerate(value):
        if _kind(item) != kind:
            expected = "semver" if kind == "version" else kind
            raise ValueError(f"expected list element at index {position} to be {expected}, got {_go_type(item)}")
    return {f"{kind}s": [_plain(item) for item in value]}


def _kind(value: Value) -> str:
    """Return the kind of attribute that a value becomes, "" if there is none."""
    return "version" if isinstance(value, Semver) else {bool: "bool", int: "int", str: "string"}.get(type(value), "")


def _plain(value: Value) -> Any:
    return str(value) if isinstance(value, Semver) else value


_GO_TYPES = {
    "bool": "bool",
    "bytes": "[]uint8",
    "double": "float64",
    "google.protobuf.Duration": "time.Duration",
    "google.protobuf.Timestamp": "time.Time",
    "int": "int64",
    "kubernetes.Quantity": "*resource.Quantity",
    "kubernetes.Semver": "semver.Version",
    "list": "[]ref.Val",
    "map": "map[ref.Val]ref.Val",
    "null_type": "structpb.NullValue",
    "string": "string",
    "uint": "uint64",
}


def _go_type(value: Value) -> str:
    """Return the Go type that cel-go holds a value in."""
    name = type_name(value)
    return _GO_TYPES.get(name, name)
