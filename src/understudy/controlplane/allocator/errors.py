"""The errors of an allocation, with upstream's texts."""

from __future__ import annotations


class AllocationError(Exception):
    """An allocation that cannot be tried, because objects contradict each other or a selector fails.

    `only_this_node` is true if the scheduler goes on with other nodes (upstream: `ErrFailedAllocationOnNode`).
    """

    def __init__(self, message: str, *, only_this_node: bool = False) -> None:
        super().__init__(message)
        self.only_this_node = only_this_node


class AllocatorPanicError(AllocationError):
    """An allocation at which the release's kube-scheduler crashes; str(error) is the text of Go's panic."""


class AllocationTimeoutError(AllocationError):
    """A search that was given up after its timeout."""
