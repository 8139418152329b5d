"""The devices of the cluster and their classes, kept in the form in which the allocator needs them."""

from __future__ import annotations

from understudy.controlplane.allocator import AllocatedState, Allocator, Inventory, Rules
from understudy.controlplane.allocator.checks.taint_rules import GATE, RuleMatcher
from understudy.controlplane.allocator.rules import GATES
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # before the name of a class: its resource without further ado


class Devices:
    """Slices and classes as they come and go. Slices are read once, and pools gathered again only after a change.

    allocated            the devices in use, which somebody else counts
    follows_taint_rules  whether devices have the taints of DeviceTaintRules as well
    """

    def __init__(self, version: Version, gates: Gates) -> None:
        self._version = version
        self._provides_resources = gates[features.DRA_EXTENDED_RESOURCE]
        self._features = frozenset(str(gate) for gate in GATES if gates[gate])
        self._classes: dict[str, Obj] = {}
        self._slices: dict[str, Obj] = {}
        self._taint_rules: dict[str, Obj] = {}
        self._matcher = RuleMatcher(version, self._classes.get)
        self._inventory: Inventory | None = None
        self._is_current = False
        gate = GATE.get(version)
        self.follows_taint_rules = gate is not None and gates[gate]
        self.allocated = AllocatedState(Rules.of(version, self._features))

    def has_class(self, name: str) -> bool:
        """Report whether there is a device class."""
        return name in self._classes

    def class_of(self, resource: str) -> str | None:
        """Return the class that provides an extended resource: the newest if several do, None if none does.

        Upstream: `ExtendedResourceCache`.
        """
        if not self._provides_resources or "/" not in resource:
            return None
        name = resource.removeprefix(IMPLICIT)
        if name != resource:
            return name if name in self._classes else None
        providers = [obj["metadata"] for obj in self._classes.values() if _resource(obj) == resource]
        providers.sort(key=lambda metadata: str(metadata["name"]))
        newest = max(providers, key=lambda metadata: str(metadata["creationTimestamp"]), default=None)
        return None if newest is None else str(newest["name"])

    def put_class(self, obj: Obj) -> None:
        """Take in a device class."""
        self._classes[obj["metadata"]["name"]] = obj
        self._class_changed()

    def remove_class(self, obj: Obj) -> None:
        """Forget a device class."""
        self._classes.pop(obj["metadata"]["name"], None)
        self._class_changed()

    def put_slice(self, obj: Obj) -> None:
        """Take in a slice."""
        self._slices[obj["metadata"]["name"]] = obj
        self._is_current = False

    def remove_slice(self, obj: Obj) -> None:
        """Forget a slice."""
        self._slices.pop(obj["metadata"]["name"], None)
        self._is_current = False

    def put_taint_rule(self, obj: Obj) -> None:
        """Take in a DeviceTaintRule."""
        self._taint_rules[obj["metadata"]["name"]] = obj
        self._is_current = False

    def remove_taint_rule(self, obj: Obj) -> None:
        """Forget a DeviceTaintRule."""
        self._taint_rules.pop(obj["metadata"]["name"], None)
        self._is_current = False

    def _class_changed(self) -> None:
        """Taint the devices again if rules may select them by class."""
        if self._taint_rules:
            self._is_current = False

    def inventory(self) -> Inventory:
        """Return the devices that are there now."""
        if self._inventory is None or not self._is_current:
            rules = self._taint_rules.values()
            slices = [self._matcher.tainted(slice_, rules) for slice_ in self._slices.values()]
            self._inventory = Inventory(self._version, self._features, slices, self._inventory)
            self._is_current = True
        return self._inventory

    def allocator(self) -> Allocator:
        """Return an allocator for what is there and in use now."""
        return Allocator(self._version, self._features, self.allocated, self._classes, self.inventory())


def _resource(obj: Obj) -> str | None:
    """Return the extended resource that a class provides, None if it names none."""
    name: str | None = obj["spec"].get("extendedResourceName")
    return name
