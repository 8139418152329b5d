"""Validation of DeviceClass: selectors and configuration that many claims share."""

from __future__ import annotations

from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.core import nodeselector
from understudy.kinds.core.pods.containers.resources import is_extended
from understudy.kinds.resource.claims import devices
from understudy.kinds.resource.common import configuration
from understudy.kinds.resource.common.each import validate_list
from understudy.kinds.resource.common.release_rules import CONFIGS, ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, old: Obj | None = None) -> Errors:
    """Check a spec. Lists that are as in `old`, the spec it replaces, count as stored."""
    stored_selectors, stored_configs = (
        old is not None and semantic_deep_equal(spec.get(name), old.get(name)) for name in ("selectors", "config")
    )
    errors = devices.selectors(spec.get("selectors"), path, rules, stored_selectors)
    errors += validate_list(
        spec.get("config"),
        CONFIGS,
        lambda config, here: configuration.validate(config, here, rules, stored_configs),
        path.child("config"),
        rules,
    )
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        errors.append(invalid(path.child("extendedResourceName"), name, "must be a valid extended resource name"))
    if (nodes := spec.get("suitableNodes")) is not None:
        # The real server leaves out that it is in the spec.
        errors += nodeselector.validate(nodes, Path("suitableNodes"), any_values=rules.any_node_value)
    return errors
