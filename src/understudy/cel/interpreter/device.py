"""The `device` variable: a device of a ResourceSlice as selectors see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.cel.errors import EvaluationError
from understudy.cel.interpreter.field_access import MapWithDefault
from understudy.cel.library.quantity import Quantity
from understudy.cel.library.semver import Semver
from understudy.cel.values import Value, type_name


def device_value(device: Mapping[str, Any], *, lists: bool) -> Value:
    """Return the value of `device` (see `Compiled.evaluate` for the form). Names without a domain get the driver's.

    lists  whether attributes may be lists
    """
    driver = str(device.get("driver", ""))
    attributes: MapWithDefault = MapWithDefault()
    for name, attribute in (device.get("attributes") or {}).items():
        domain, id_ = _split(name, driver)
        attributes.setdefault(domain, {})[id_] = _attribute(name, attribute, lists)
    capacity: MapWithDefault = MapWithDefault()
    for name, amount in (device.get("capacity") or {}).items():
        domain, id_ = _split(name, driver)
        amount = amount["value"] if isinstance(amount, Mapping) else amount
        capacity.setdefault(domain, {})[id_] = Quantity.parse(str(amount))
    multiple = device.get("allowMultipleAllocations") or False
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": multiple}


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, id_ = name.partition("/")
    return (domain, id_) if slash else (driver, name)


def _attribute(name: str, attribute: Mapping[str, Any], lists: bool) -> Value:
    """Return the value of an attribute. Raises `EvaluationError` if it has no known type or an invalid version."""
    for kind in ("ints", "bools", "strings", "versions") if lists else ():
        if attribute.get(kind) is not None:
            return [_version(name, each) if kind == "versions" else each for each in attribute[kind]]
    for kind in ("int", "bool", "string"):
        if attribute.get(kind) is not None:
            return attribute[kind]
    if attribute.get("version") is not None:
        return _version(name, attribute["version"])
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Semver:
    """Return the version in an attribute. Raises `EvaluationError` if it is invalid."""
    try:
        return Semver.parse(text)
    except EvaluationError as error:
        raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


def as_bool(result: Value) -> bool:
    """Return the result of a selector. Raises `EvaluationError` if it is not a bool."""
    if isinstance(result, bool):
        return result
    name = type_name(result)
    reason = _NO_BOOL.get(name, f"unsupported type conversion from '{name}' to bool")
    raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {reason}")


_NO_BOOL = {
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}
