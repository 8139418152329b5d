"""Marks the tests of `scripts/`: they are for maintainers, and take a tenth of the time of all tests."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test of this folder; pytest asks this module about no other."""
    item.add_marker(pytest.mark.maintenance)
