"""Validation of ResourceSlice: devices of a pool, and the nodes that can use them."""

from __future__ import annotations

import re
from typing import Any

from understudy.admission.validation.core import nodeselector
from understudy.admission.validation.each import duplicates, validate_list, validate_map
from understudy.admission.validation.formats import label, subdomain
from understudy.admission.validation.objectmeta import IMMUTABLE
from understudy.admission.validation.resource import identifiers
from understudy.admission.validation.resource.flat_form import flat_slice
from understudy.admission.validation.resource.release_rules import (
    ATTRIBUTE_VALUE_LENGTH,
    ATTRIBUTES_AND_CAPACITIES,
    DEVICES,
    DRIVER_LENGTH,
    IDENTIFIER_LENGTH,
    ReleaseRules,
)
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required, too_long
from understudy.machinery.validation.names import size

SPEC = "k8s.io/kubernetes/pkg/apis/resource.ResourceSliceSpec"
ATTRIBUTE = "k8s.io/kubernetes/pkg/apis/resource.DeviceAttribute"
TERMS = "[]k8s.io/kubernetes/pkg/apis/core.NodeSelectorTerm"

_KEY_LENGTH = DRIVER_LENGTH + 1 + IDENTIFIER_LENGTH
_NODES = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required"

_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SEMVER = re.compile(  # semver.org, 2.0.0
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
)

# Fields that cannot be changed.
_FIXED = (("pool", "name"), ("driver",), ("nodeName",))


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, old: Obj | None = None) -> Errors:
    """Check a spec, and what must not differ from `old`, the spec it replaces."""
    items, where = spec.get("devices") or (), path.child("devices")
    return [
        *identifiers.driver(spec.get("driver", ""), path.child("driver"), rules),
        *_pool(spec.get("pool") or {}, path.child("pool")),
        *(_unchanged(spec, old, path) if old is not None else ()),
        *_nodes(spec, path, rules),
        *validate_list(items, DEVICES, lambda device, here: _device(device, here, rules), where, rules),
        *duplicates((device.get("name", "") for device in items), where, "name"),
    ]


def _pool(pool: Obj, path: Path) -> Errors:
    errors = identifiers.pool(pool.get("name", ""), path.child("name"))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.append(invalid(path.child("resourceSliceCount"), count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(path.child("generation"), generation, "must be greater than or equal to zero"))
    return errors


def _at(spec: Obj, names: tuple[str, ...]) -> Any:
    for name in names:
        spec = spec.get(name) or {}
    return spec or ""


def _unchanged(spec: Obj, old: Obj, path: Path) -> Errors:
    return [
        invalid(path.child(*names), _at(spec, names), IMMUTABLE)
        for names in _FIXED
        if _at(spec, names) != _at(old, names)
    ]


def _nodes(spec: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the nodes that the devices are for: exactly one of `nodeName`, `nodeSelector`, `allNodes`."""
    errors: Errors = []
    name, selector = spec.get("nodeName"), spec.get("nodeSelector")
    if name:
        errors += subdomain(name, path.child("nodeName"))
    if selector is not None:
        errors += _selector(selector, path.child("nodeSelector"), rules)
    ways = bool(name) + (selector is not None) + bool(spec.get("allNodes"))
    if ways == 0:
        errors.append(required(path, _NODES))
    elif ways > 1:
        value = Typed(flat_slice(spec), SPEC) if rules.dumps_slices else None
        errors.append(invalid(path, value, _NODES))
    return errors


def _selector(selector: Obj, path: Path, rules: ReleaseRules) -> Errors:
    errors = nodeselector.validate(selector, path, any_values=rules.any_node_value)
    if len(selector.get("nodeSelectorTerms") or ()) != 1:
        value = Typed.of_field(selector, "nodeSelectorTerms", TERMS)
        errors.append(invalid(path.child("nodeSelectorTerms"), value, rules.one_term))
    return errors


def _device(device: Obj, path: Path, rules: ReleaseRules) -> Errors:
    errors = label(device.get("name", ""), path.child("name"))
    path = rules.basic(path)
    if "basic" in device:
        return [*errors, required(path)]
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}

    def key(name: str, here: Path) -> Errors:
        return [] if identifiers.is_qualified(name, rules.release) else identifiers.qualified(name, here, rules)

    errors += [
        *validate_map(
            attributes,
            _KEY_LENGTH,
            key,
            lambda attribute, here: _attribute(attribute, here, rules),
            path.child("attributes"),
            rules,
        ),
        # Whatever can be parsed is a good quantity.
        *validate_map(capacity, _KEY_LENGTH, key, lambda _, here: [], path.child("capacity"), rules),
    ]
    total = len(attributes) + len(capacity)
    if total > ATTRIBUTES_AND_CAPACITIES:
        text = f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}"
        errors.append(invalid(path, total, text))
    return errors


def _attribute(attribute: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check an attribute's value, which has one of four types (upstream: `validateDeviceAttribute`)."""
    errors: Errors = []
    version = attribute.get("version")
    if size(attribute.get("string") or "") > ATTRIBUTE_VALUE_LENGTH:
        errors.append(too_long(path.child("string"), ATTRIBUTE_VALUE_LENGTH))
    if version is not None:
        if not _SEMVER.fullmatch(version):
            text = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid(path.child("version"), version, text))
        if size(version) > ATTRIBUTE_VALUE_LENGTH:
            errors.append(too_long(path.child("version"), ATTRIBUTE_VALUE_LENGTH))
    values = sum(value is not None for value in attribute.values())
    if values == 0:
        errors.append(required(path, "exactly one value must be specified"))
    elif values > 1:
        errors.append(invalid(path, Typed(attribute, ATTRIBUTE), rules.one_value))
    return errors
