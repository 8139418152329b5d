"""DeviceTaintRules: which devices they taint.

From 1.35 on by driver, pool and name, and allocated devices that nobody publishes as well. Before, published devices
only, by class and CEL selectors too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from understudy.admission import cel
from understudy.admission.cel.interpreter.device import device_value
from understudy.controlplane.allocator.allocator import selector_environment
from understudy.controlplane.client.store import Store
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj

log = logging.getLogger(__name__)


class RuleMatcher:
    """Tells which devices a rule of a release selects."""

    def __init__(self, version: Version, classes: Store) -> None:
        self._published_only = version < V1_35
        self._classes = classes
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
            device_class = self._classes.get("", class_name)
            if device_class is None:
                return False
            selectors = [*(device_class["spec"].get("selectors") or ()), *selectors]
        return self._matches(selectors, {**device, "driver": driver})

    def _matches(self, selectors: Iterable[Obj], device: Obj) -> bool:
        """Report whether all CEL selectors match a device; one that cannot be evaluated does not."""
        for selector in selectors:
            compiled = cel.compile(selector["cel"]["expression"], self._environment)
            try:
                if compiled.error is not None or compiled.matches(device_value(device, lists=False)) is not True:
                    return False
            except cel.EvaluationError as why:
                log.info("selector %s: %s", selector["cel"]["expression"], why)
                return False
        return True
