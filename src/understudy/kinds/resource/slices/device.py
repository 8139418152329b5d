"""Validation of one device of a ResourceSlice."""

from __future__ import annotations

from understudy.kinds.common.formats import label
from understudy.kinds.resource.common import binding_conditions, identifiers
from understudy.kinds.resource.common.each import validate_list, validate_map
from understudy.kinds.resource.common.release_rules import DRIVER_LENGTH, IDENTIFIER_LENGTH, ReleaseRules
from understudy.kinds.resource.slices import attribute, capacity, counters, node_resources, nodes, taint
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required

ATTRIBUTES_AND_CAPACITIES = 32

_KEY_LENGTH = DRIVER_LENGTH + 1 + IDENTIFIER_LENGTH


def validate(
    device: Obj, path: Path, rules: ReleaseRules, counters_of_slice: counters.Names, each_on_its_own: bool
) -> Errors:
    """Check one device (upstream: `validateDevice`).

    counters_of_slice  the counters that its slice shares
    each_on_its_own    whether each device of the slice says which nodes it is for
    """
    errors = label(device.get("name", ""), path.child("name"))
    path = rules.basic(path)
    if "basic" in device:
        return [*errors, required(path)]
    errors += _attributes_and_capacities(device, path, rules)
    errors += validate_list(
        device.get("taints"),
        rules.taints,
        lambda item, here: taint.validate(item, here, rules),
        path.child("taints"),
        rules,
    )
    return [
        *errors,
        *counters.consumed(device, path, rules, counters_of_slice),
        *nodes.of_device(device, path, rules, each_on_its_own),
        *binding_conditions.validate(device, path, rules),
        *node_resources.mappings(device, path.child("nodeAllocatableResourceMappings")),
        *node_resources.resources(device, path.child("nodeAllocatableResources")),
    ]


def has_lists(device: Obj) -> bool:
    """Report whether an attribute of a device is a list."""
    return any(map(attribute.has_lists, (device.get("attributes") or {}).values()))


def _attributes_and_capacities(device: Obj, path: Path, rules: ReleaseRules) -> Errors:
    attributes, capacities = device.get("attributes") or {}, device.get("capacity") or {}
    shared = device.get("allowMultipleAllocations") is True

    def key(name: str, here: Path) -> Errors:
        return [] if identifiers.is_qualified(name, rules.release) else identifiers.qualified(name, here, rules)

    errors = [
        *validate_map(
            attributes,
            _KEY_LENGTH,
            key,
            lambda value, here: attribute.validate(value, here, rules),
            path.child("attributes"),
            rules,
        ),
        *validate_map(
            capacities,
            _KEY_LENGTH,
            key,
            lambda value, here: capacity.validate(value, here, rules, shared),
            path.child("capacity"),
            rules,
        ),
    ]
    too_many: Errors = []
    total, values = len(attributes) + len(capacities), sum(map(attribute.number_of_values, attributes.values()))
    if total > ATTRIBUTES_AND_CAPACITIES:
        text = f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}"
        too_many.append(invalid(path, total, text))
    if rules.attribute_values is not None and values > rules.attribute_values:
        text = f"the total number of attribute values must not exceed {rules.attribute_values}"
        too_many.append(invalid(path, values, text))
    return errors + too_many if rules.counts_attributes_last else too_many + errors
