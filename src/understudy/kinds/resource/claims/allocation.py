"""Validation of an AllocationResult: the devices a claim got, their configuration, the nodes they can be used on."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.common.formats import label
from understudy.kinds.core import nodeselector
from understudy.kinds.resource.claims.devices import references, tolerations
from understudy.kinds.resource.common import binding_conditions, configuration, identifiers, node_operations
from understudy.kinds.resource.common.device_id import DeviceID
from understudy.kinds.resource.common.each import validate_list
from understudy.kinds.resource.common.release_rules import ALLOCATED_CONFIGS, RESULTS, ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, not_supported, required

SOURCES = ("FromClaim", "FromClass")


def results(status: Obj) -> list[Obj]:
    """Return the allocated devices in a claim's status."""
    allocation = status.get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def allocated(status: Obj) -> Iterator[DeviceID]:
    """Return the identities of the allocated devices in a claim's status."""
    return (DeviceID.of(result) for result in results(status))


def validate(allocation: Obj, path: Path, names: frozenset[str], rules: ReleaseRules) -> Errors:
    """Check an allocation for requests with those names (upstream: `validateAllocationResult`)."""
    devices, where = allocation.get("devices") or {}, path.child("devices")
    errors = [
        *validate_list(
            devices.get("results"),
            RESULTS,
            lambda result, here: _result(result, here, names, rules),
            where.child("results"),
            rules,
        ),
        *validate_list(
            devices.get("config"),
            ALLOCATED_CONFIGS,
            lambda config, here: _config(config, here, names, rules),
            where.child("config"),
            rules,
        ),
    ]
    if (selector := allocation.get("nodeSelector")) is not None:
        errors += nodeselector.validate(selector, path.child("nodeSelector"), any_values=rules.any_node_value)
    if controller := allocation.get("controller"):
        errors += identifiers.driver(controller, path.child("controller"), rules)
    return errors


def _result(result: Obj, path: Path, names: frozenset[str], rules: ReleaseRules) -> Errors:
    return [
        *identifiers.request_reference(result.get("request", ""), path.child("request"), names, rules),
        *device(result, path, rules),
        *binding_conditions.validate(result, path, rules),
        *(tolerations(result, path, rules) if rules.result_tolerations else ()),
        *share(result, path),
        *node_operations.validate(result.get("skipNodeOperations"), path.child("skipNodeOperations")),
    ]


def device(entry: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the three names that identify a device."""
    return [
        *identifiers.driver(entry.get("driver", ""), path.child("driver"), rules),
        *identifiers.pool(entry.get("pool", ""), path.child("pool")),
        *label(entry.get("device", ""), path.child("device")),
    ]


def share(entry: Obj, path: Path) -> Errors:
    """Check the identity of a share of a device, if it is one."""
    value = entry.get("shareID")
    return [] if value is None else identifiers.uid(value, path.child("shareID"))


def _config(config: Obj, path: Path, names: frozenset[str], rules: ReleaseRules) -> Errors:
    source, where = config.get("source", ""), path.child("source")
    errors: Errors = []
    if not source:
        errors.append(required(where))
    elif source not in SOURCES:
        errors.append(not_supported(where, source, SOURCES))
    errors += references(config.get("requests"), path.child("requests"), names, rules)
    return errors + configuration.validate(config, path, rules)
