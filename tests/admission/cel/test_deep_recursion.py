"""Recursion in Python that goes deeper than Python's recursion limit."""

from __future__ import annotations

import sys
import threading

import pytest

from understudy.admission.cel.deep_recursion import deep_recursion


@deep_recursion
def count(levels: int) -> int:
    """Return the number of levels, by recursion."""
    return 1 + count(levels - 1) if levels else 0


@deep_recursion
def fail(levels: int) -> None:
    """Raise at the deepest level."""
    if not levels:
        raise ValueError("deepest")
    fail(levels - 1)


def test_recursion_is_deeper_than_the_limit() -> None:
    """Decorated functions recurse further than the limit, which stays as it is, and so do stacks of new threads."""
    limits = sys.getrecursionlimit(), threading.stack_size()
    assert count(3 * limits[0]) == 3 * limits[0]
    assert (sys.getrecursionlimit(), threading.stack_size()) == limits


def test_errors_reach_the_caller() -> None:
    """An error that is raised on another stack reaches the caller's thread."""
    with pytest.raises(ValueError, match="deepest"):
        fail(1000)


def test_stacks_end() -> None:
    """No thread is left behind."""
    count(1000)
    assert not [thread for thread in threading.enumerate() if thread.name == "understudy-cel"]
