"""DeviceTaintRules: which devices they taint, in addition to the taints that drivers publish.

From 1.35 on rules select by driver, pool and name; when pods are evicted, devices that no driver publishes as well.
Before, they select published devices only, by class and CEL selectors too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from understudy import cel
from understudy.cel.interpreter.device import device_value
from understudy.controlplane.allocator.selectors import selector_environment
from understudy.machinery.releases import features as gates
from understudy.machinery.releases.version import V1_33, V1_35, ByRelease, Version
from understudy.machinery.types import Obj

log = logging.getLogger(__name__)

# The gate with which kube-scheduler looks at rules.
GATE = ByRelease({V1_35: gates.DRA_DEVICE_TAINT_RULES, V1_33: gates.DRA_DEVICE_TAINTS})


class RuleMatcher:
    """Tells which devices a rule of a release selects.

    class_named  returns the DeviceClass of a name, None if there is none
    """

    def __init__(self, version: Version, class_named: Callable[[str], Obj | None]) -> None:
        self._published_only = version < V1_35
        self._class_named = class_named
        self._environment = selector_environment(version, frozenset())

    def selects(self, rule: Obj, driver: str, pool: str, name: str, device: Obj | None) -> bool:
        """Report whether a rule selects a device. `device` is what is published about it, None for nothing."""
        selector = rule["spec"].get("deviceSelector")
        if selector is None:
            return self._published_only and device is not None
        expected = {"driver": driver, "pool": pool, "device": name}
        if any(selector.get(field) not in (None, value) for field, value in expected.items()):
            return False
        if not self._published_only:
            return True
        if device is None:
            return False
        selectors = list(selector.get("selectors") or ())
        if class_name := selector.get("deviceClassName"):
            device_class = self._class_named(class_name)
            if device_class is None:
                return False
            selectors = [*(device_class["spec"].get("selectors") or ()), *selectors]
        return self._matches(selectors, {**device, "driver": driver})

    def tainted(self, slice_: Obj, rules: Iterable[Obj]) -> Obj:
        """Return a slice whose devices have the taints of rules, too; the very slice if no rule selects one of them.

        That is what kube-scheduler allocates from (upstream: `resourceslice/tracker`). A rule without a selector is for
        all devices here.
        """
        spec = slice_["spec"]
        driver, pool = spec["driver"], spec["pool"]["name"]
        devices = list(spec.get("devices") or ())
        changed = False
        for rule in rules:
            for i, device in enumerate(devices):
                published = device.get("basic") or device
                every = rule["spec"].get("deviceSelector") is None
                if every or self.selects(rule, driver, pool, device["name"], published):
                    taints = {"taints": [*(published.get("taints") or ()), rule["spec"]["taint"]]}
                    nested = {"basic": {**published, **taints}} if published is not device else taints
                    devices[i] = {**device, **nested}
                    changed = True
        return {**slice_, "spec": {**spec, "devices": devices}} if changed else slice_

    def _matches(self, selectors: Iterable[Obj], device: Obj) -> bool:
        """Report whether all CEL selectors match a device; one that cannot be evaluated does not.

        The device's `allowMultipleAllocations` is false here.
        """
        shown = {**device, "allowMultipleAllocations": False}
        for selector in selectors:
            compiled = cel.compile(selector["cel"]["expression"], self._environment)
            try:
                if compiled.error is not None or compiled.matches(device_value(shown, lists=False)) is not True:
                    return False
            except cel.EvaluationError as why:
                log.info("selector %s: %s", selector["cel"]["expression"], why)
                return False
        return True
