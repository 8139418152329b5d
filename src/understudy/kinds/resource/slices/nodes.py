"""Validation of the nodes that can use the devices of a slice, or one device of it."""

from __future__ import annotations

from understudy.kinds.common.formats import subdomain
from understudy.kinds.core import nodeselector
from understudy.kinds.resource.common.flat_form import flat_slice
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required

SPEC = "k8s.io/kubernetes/pkg/apis/resource.ResourceSliceSpec"
TERMS = "[]k8s.io/kubernetes/pkg/apis/core.NodeSelectorTerm"

_OF_SLICE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_OF_SLICE_BEFORE = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required"
_OF_DEVICE = f"{_OF_SLICE_BEFORE} when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
_NOT_PER_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def of_slice(spec: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check that a slice says in exactly one way which nodes its devices are for."""
    ways, errors = _ways(spec, path, rules, "must be either unset or set to a non-empty string", one_term=True)
    if not rules.nodes_per_device:
        if not ways:
            errors.append(required(path, _OF_SLICE_BEFORE))
        elif len(ways) > 1:
            value = Typed(flat_slice(spec), SPEC) if rules.dumps_slices else None
            errors.append(invalid(path, value, _OF_SLICE_BEFORE))
    elif not ways:
        errors.append(required(path, _OF_SLICE))
    elif len(ways) > 1:
        errors.append(invalid(path, _listed(ways), f"{_OF_SLICE}, but multiple fields are set"))
    return errors


def of_device(device: Obj, path: Path, rules: ReleaseRules, each_on_its_own: bool) -> Errors:
    """Check that a device says which nodes it is for if `each_on_its_own` does so, and does not say it otherwise."""
    if not each_on_its_own:
        named = any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes"))
        return [invalid(path, None, _NOT_PER_DEVICE)] if named else []
    ways, errors = _ways(device, path, rules, "must not be empty")
    if not ways:
        errors.append(required(path, _OF_DEVICE))
    elif len(ways) > 1:
        errors.append(invalid(path, _listed(ways), _OF_DEVICE))
    return errors


def _ways(
    obj: Obj, path: Path, rules: ReleaseRules, empty_name: str, *, one_term: bool = False
) -> tuple[list[str], Errors]:
    """Return the names of the fields by which a slice or device says which nodes it is for, and what is wrong there.

    empty_name  the text for an empty name of a node
    one_term    whether a selector must have exactly one term, so that those of several slices are easy to combine
    """
    ways: list[str] = []
    errors: Errors = []
    name, selector = obj.get("nodeName"), obj.get("nodeSelector")
    if name:
        ways.append("nodeName")
        errors += subdomain(name, path.child("nodeName"))
    elif name is not None:
        errors.append(invalid(path.child("nodeName"), name, empty_name))
    if selector is not None:
        ways.append("nodeSelector")
        where = path.child("nodeSelector")
        errors += nodeselector.validate(selector, where, any_values=rules.any_node_value)
        if one_term and len(selector.get("nodeSelectorTerms") or ()) != 1:
            value = Typed.of_field(selector, "nodeSelectorTerms", TERMS)
            errors.append(invalid(where.child("nodeSelectorTerms"), value, rules.one_term))
    for flag in ("allNodes", "perDeviceNodeSelection"):
        if obj.get(flag):
            ways.append(flag)
        elif obj.get(flag) is not None:
            errors.append(invalid(path.child(flag), False, "must be either unset or set to true"))
    return ways, errors


def _listed(ways: list[str]) -> str:
    return f"{{{', '.join(f'`{name}`' for name in ways)}}}"
