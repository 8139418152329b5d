"""The answers of plugins about a pod, and the one message made of their answers for all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto

from understudy.machinery.types import dataclass


class Code(Enum):
    """The kinds of statuses. Success has none: plugins return None. Upstream: `framework.Code`."""

    ERROR = auto()  # something went wrong: the attempt ends, and is made again after a pause
    UNSCHEDULABLE = auto()  # not now; it might help if other pods went (preemption)
    UNRESOLVABLE = auto()  # not now, whatever pods go (upstream: `UnschedulableAndUnresolvable`)


@dataclass(frozen=True, slots=True)
class Status:
    """The reasons why a pod cannot have a node, or any node. Upstream: `framework.Status`.

    plugin  the name of the plugin that says so, "" until the framework fills it in
    """

    code: Code
    reasons: tuple[str, ...]
    plugin: str = ""

    @property
    def message(self) -> str:
        """Return the reasons as one text."""
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        """Report whether the pod was looked at and turned down, rather than that something went wrong."""
        return self.code is not Code.ERROR

    def of(self, plugin: str) -> Status:
        """Return the status with the name of the plugin that it comes from."""
        return replace(self, plugin=plugin)


def error(text: str) -> Status:
    """Return the status of something that went wrong."""
    return Status(Code.ERROR, (text,))


def unschedulable(*reasons: str) -> Status:
    """Return the status of a pod that has to wait, for other pods to go perhaps."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return the status of a pod that has to wait for something else than other pods."""
    return Status(Code.UNRESOLVABLE, reasons)


@dataclass(frozen=True)
class Diagnosis:
    """The reasons for which no node fits a pod. Upstream: `framework.Diagnosis`.

    nodes        the reasons against single nodes, by name
    absent       the reason against all other nodes, None if there is none
    pre_filter   the reason of a plugin that turned the pod down before any node was looked at, else ""
    post_filter  the answer of the plugins that were asked for a remedy, such as preemption
    plugins      the names of the plugins that turned the pod down: the events that they wait for wake the pod
    """

    nodes: Mapping[str, Status]
    absent: Status | None = None
    pre_filter: str = ""
    post_filter: str = ""
    plugins: frozenset[str] = frozenset()

    def message(self, node_count: int) -> str:
        """Return "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. …".

        Reasons are counted, and sorted as texts, numbers included. Upstream: `FitError.Error`.
        """
        text = f"0/{node_count} nodes are available:"
        if self.pre_filter:
            text += f" {self.pre_filter}."
        else:
            counts = Counter(reason for status in self.nodes.values() for reason in status.reasons)
            if self.absent and len(self.nodes) < node_count:
                for reason in self.absent.reasons:
                    counts[reason] += node_count - len(self.nodes)
            if counts:
                text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."
        return f"{text} {self.post_filter}" if self.post_filter else text
