"""The order of API versions."""

from __future__ import annotations

from understudy.apiserver.extensions.version_order import priority_key


def test_order_of_versions() -> None:
    """Stable versions come first, newest first, then beta and alpha ones, then other names in alphabetical order."""
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v0x"]
    assert sorted(set(ordered), key=priority_key) == ordered
