"""Feature gates: their names, their defaults over time, and what users may set."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate, GateDependencyError, Gates, LockedGateError, UnknownGateError
from understudy.machinery.releases.version import V1_31, V1_32, Version

SOURCES = Path(features.__file__).parents[2]
CONSTANTS = {name: value for name, value in vars(features).items() if name.isupper() and isinstance(value, str)}
GATES = {name: value for name, value in CONSTANTS.items() if name != "REMOVED"}

GRADUATED = Gate("ServerSideApply")  # generally available, and gone in 1.32
ABANDONED = features.DRA_CONTROL_PLANE_CONTROLLER  # alpha, and gone in 1.32
LATER = features.SELINUX_CHANGE_POLICY  # came with 1.32


@pytest.mark.parametrize("gate", GATES.values())
def test_every_named_gate_is_one_of_some_release(gate: str) -> None:
    """A constant whose text no release ever had would be an error on every request that asks for it."""
    assert isinstance(Gates.of(V1_32)[Gate(gate)], bool)


def test_every_named_gate_is_asked_for() -> None:
    """A gate that no rule asks for has no constant."""
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    assert [name for name in GATES if f"features.{name}" not in text] == []


def test_unknown_gate_is_an_error() -> None:
    """A name that no release ever had is a mistake in a rule; it must not read as a gate that is off."""
    with pytest.raises(KeyError):
        Gates.of(V1_32)[Gate("ServerSideAply")]


@pytest.mark.parametrize(("gate", "on"), [(GRADUATED, True), (ABANDONED, False)])
def test_removed_gate_keeps_its_last_default(gate: Gate, on: bool) -> None:
    """A feature stays on when the gate of it is removed after it graduated; an abandoned one stays off."""
    assert (Gates.of(V1_31)[gate], Gates.of(V1_32)[gate]) == (on, on)


@pytest.mark.parametrize("gate", [GRADUATED, ABANDONED])
def test_removed_gate_cannot_be_set(gate: Gate) -> None:
    """Users are told that a release does not have the gate any more."""
    Gates.of(V1_31, {gate: True})
    with pytest.raises(UnknownGateError, match=f"unrecognized feature gate: {gate}"):
        Gates.of(V1_32, {gate: True})


def test_gate_of_a_later_release_is_off() -> None:
    """Before its first release a gate is off, and users cannot set it."""
    gates = Gates.of(V1_31)
    assert not gates[LATER]
    with pytest.raises(UnknownGateError):
        gates.set({LATER: True})


def test_stages_are_set_before_single_gates() -> None:
    """AllAlpha turns on every alpha gate but those that are set themselves."""
    gates = Gates.of(V1_31, {"AllAlpha": True, "CoordinatedLeaderElection": False})
    assert gates[ABANDONED]
    assert not gates[features.COORDINATED_LEADER_ELECTION]


def test_reset_turns_gates_to_their_defaults() -> None:
    """A reset forgets the gates that were set before, those of other releases too."""
    gates = Gates.of(V1_31, {ABANDONED: True})
    gates.reset({})
    assert gates.in_force() == Gates.of(V1_31).in_force()


def test_only_gates_of_the_release_are_listed() -> None:
    """Metrics and the control API show what the release has."""
    assert GRADUATED in Gates.of(V1_31).in_force()
    assert Gates.of(V1_32).in_force().keys().isdisjoint({GRADUATED, ABANDONED})
    assert Gates.of(V1_31).described().keys().isdisjoint({LATER})


def test_locked_gate_keeps_its_default() -> None:
    """A gate that is locked may be named, but not changed; AllBeta and AllAlpha leave it alone."""
    gates = Gates.of(V1_32, {"AllAlpha": False, "RetryGenerateName": True})
    text = r"^cannot set feature gate RetryGenerateName to false, feature is locked to true$"
    with pytest.raises(LockedGateError, match=text):
        gates.set({"DRAAdminAccess": True, "RetryGenerateName": False})
    assert not gates[features.DRA_ADMIN_ACCESS]


def test_gate_needs_other_gates() -> None:
    """From 1.35 on a gate cannot be on while a gate that it needs is off."""
    text = (
        r"^ResourceHealthStatusMessage is enabled, but depends on features that are disabled: \[ResourceHealthStatus\]$"
    )
    with pytest.raises(GateDependencyError, match=text):
        Gates.of(Version(1, 36), {"ResourceHealthStatus": False})
    Gates.of(Version(1, 36), {"ResourceHealthStatus": False, "ResourceHealthStatusMessage": False})
