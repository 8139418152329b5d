"""The behavior of a kind is found in the module that `FAMILIES` names for it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.releases import RELEASES
from understudy import kinds
from understudy.kinds.behaviors import FAMILIES, behavior_of
from understudy.kinds.declarations.kind import Behavior
from understudy.machinery.releases.version import Version

FOLDER = Path(kinds.__file__).parent
DEFINES = "def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:"


def modules() -> list[str]:
    """Return the names of the modules that have the behavior of kinds."""
    files = [file for file in FOLDER.rglob("*.py") if DEFINES in file.read_text()]
    return [".".join(["understudy.kinds", *file.relative_to(FOLDER).with_suffix("").parts]) for file in files]


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_every_behavior_is_found(version: Version) -> None:
    """Each kind finds its own module, and each module with rules is named."""
    assert set(FAMILIES.values()) == set(modules())
    for module in modules():
        for (group, kind), behavior in import_module(module).behaviors(version).items():
            assert (behavior_of(version, group, kind) == Behavior()) == (behavior == Behavior())
            assert (FAMILIES.get((group, kind)) or FAMILIES[group]) == module, kind
