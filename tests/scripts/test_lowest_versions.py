"""scripts/lowest_versions.py: which bounds it reads, and what it says of them."""

from __future__ import annotations

from packaging.version import Version

from scripts import lowest_versions

REQUIREMENTS = [
    "aiohttp>=3.11",
    'aiohttp>=3.13; python_version >= "3.11"',
    'aiohttp>=9; python_version < "3"',
    "PyYAML>=6.0.2,<7",
    "sortedcontainers",
    "understudy[kubelet]; extra == 'test'",
    "kubernetes_asyncio>=32; extra == 'clients'",
]


def test_lower_bounds_of_this_python_and_all_extras() -> None:
    """The highest bound that applies to this Python counts, whatever the extra; upper bounds and extras do not."""
    assert lowest_versions.bounds(REQUIREMENTS, ["test", "clients"]) == {
        "aiohttp": Version("3.13"),
        "pyyaml": Version("6.0.2"),
        "sortedcontainers": None,
        "kubernetes-asyncio": Version("32"),
    }
    assert "kubernetes-asyncio" not in lowest_versions.bounds(REQUIREMENTS, ["test"])


def test_other_versions_than_the_lowest_are_named() -> None:
    """A later version, a missing one and a missing bound are named; 3.13 and 3.13.0 are the same."""
    declared = lowest_versions.bounds(REQUIREMENTS, ["clients"])
    installed = {"aiohttp": Version("3.13.0"), "pyyaml": Version("6.0.3"), "sortedcontainers": Version("2.4")}
    assert list(lowest_versions.differences(declared, installed)) == [
        "pyyaml: 6.0.2 is declared, 6.0.3 is installed",
        "sortedcontainers: no lower bound",
        "kubernetes-asyncio: 32 is declared, nothing is installed",
    ]
