#!/usr/bin/env python3
"""Checks that every dependency of understudy, of its extras too, is installed in the lowest version that it declares.

    uv pip install --resolution lowest-direct --only-binary :all: -e '.[dev,clients]'
    python scripts/lowest_versions.py

Where the lowest version has no wheel for a Python, or others need a later one, uv installs that later one. The bound is
not true then, and this names it: exit status 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

DISTRIBUTION = "understudy"


def main() -> int:
    """Print a line for each bound that is not true; return the exit code."""
    extras = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    declared = bounds(metadata.requires(DISTRIBUTION) or [], extras)
    installed = {dist.name.lower().replace("_", "-"): Version(dist.version) for dist in metadata.distributions()}
    wrong = list(differences(declared, installed))
    print("\n".join(wrong) or f"{len(declared)} dependencies are installed in the lowest version")
    return 1 if wrong else 0


def bounds(requirements: Iterable[str], extras: Iterable[str]) -> dict[str, Version | None]:
    """Return the lower bounds of the requirements that this Python has with some extras, None where there is none.

    Names are in lower case, with hyphens. Of several bounds the highest counts. Requirements of one extra on others are
    left out.
    """
    out: dict[str, Version | None] = {}
    for requirement in map(Requirement, requirements):
        name = requirement.name.lower().replace("_", "-")
        applies = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        )
        if name == DISTRIBUTION or not applies:
            continue
        lowest = [Version(each.version) for each in requirement.specifier if each.operator in (">=", "==", "~=")]
        known = out.get(name)
        out[name] = max([*lowest, *([known] if known else [])], default=None)
    return out


def differences(declared: Mapping[str, Version | None], installed: Mapping[str, Version]) -> Iterator[str]:
    """Yield a line for each dependency that is not installed in its lowest version."""
    for name, bound in declared.items():
        if bound is None:
            yield f"{name}: no lower bound"
        elif installed.get(name) != bound:
            yield f"{name}: {bound} is declared, {installed.get(name, 'nothing')} is installed"


if __name__ == "__main__":
    sys.exit(main())
