"""DeviceClass: selectors and configuration that many claims share."""

from __future__ import annotations

from understudy.admission import nodeselector
from understudy.admission.field import Errors, Path
from understudy.admission.resource import configuration, devices
from understudy.admission.resource.limits import CONFIGS, Limits
from understudy.admission.resource.lists import each
from understudy.apiserver.types import Obj


def validate_spec(spec: Obj, path: Path, limits: Limits) -> Errors:
    errors = devices.selectors(spec.get("selectors"), path, limits)
    errors += each(
        spec.get("config"),
        CONFIGS,
        lambda config, here: configuration.validate(config, here, limits),
        path.child("config"),
        limits,
    )
    if (nodes := spec.get("suitableNodes")) is not None:
        # The real server leaves out that it is in the spec.
        errors += nodeselector.validate(nodes, Path("suitableNodes"), any_values=limits.any_node_value)
    return errors
