"""Feature gates of a release.

    gates = Gates.of("1.32", {"DRAAdminAccess": True})
    gates["DRAAdminAccess"]                         # whether it is on
    gates.set({"DRAAdminAccess": False})            # on a running server

Defaults are the release's, but for DynamicResourceAllocation, which is on everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.schema import read_release_file

DRA = "DynamicResourceAllocation"
STAGES = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}


class UnknownGateError(ValueError):
    """names: what no gate of the release is called."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        super().__init__(f"unrecognized feature gate: {', '.join(names)}")


class Gates:
    """What is on."""

    def __init__(self, known: Mapping[str, tuple[str, bool]]) -> None:
        self._known = known
        self._on = self._defaults()

    @staticmethod
    def of(release: Version, changes: Mapping[str, bool] | None = None) -> Gates:
        known: dict[str, Any] = read_release_file(release, "gates.json")
        gates = Gates({name: (stage, default) for name, (stage, default) in known.items()})
        gates.set(changes or {})
        return gates

    def __getitem__(self, name: str) -> bool:
        """Whether a gate is on; one that the release does not have is off."""
        return self._on.get(name, False)

    def set(self, changes: Mapping[str, bool]) -> None:
        """Turns gates on and off, AllAlpha and AllBeta before the others. Raises UnknownGateError, nothing changed."""
        unknown = [name for name in changes if name not in self._known]
        if unknown:
            raise UnknownGateError(unknown)
        wanted: dict[str, bool] = {}
        for every, stage in STAGES.items():
            if every in changes:
                wanted |= {name: changes[every] for name, (s, _) in self._known.items() if s == stage}
        self._on |= wanted | dict(changes)

    def _defaults(self) -> dict[str, bool]:
        return {name: default or name == DRA for name, (_, default) in self._known.items()}

    def reset(self, changes: Mapping[str, bool]) -> None:
        """The defaults and `changes`, whatever was set before."""
        self._on = self._defaults()
        self.set(changes)

    def in_force(self) -> dict[str, bool]:
        """Every gate with its state, sorted by name."""
        return dict(sorted(self._on.items()))

    def described(self) -> dict[str, tuple[str, bool]]:
        """{gate: (stage, on)}, sorted by name."""
        return {name: (self._known[name][0], on) for name, on in self.in_force().items()}
