"""What is in the queue: pods, alone or with the other waiting pods of their group. Upstream: `QueuedEntityInfo`."""

from __future__ import annotations

import math
from dataclasses import field
from enum import Enum, auto

from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.machinery.types import dataclass

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0  # seconds


class Place(Enum):
    """The places in the queue where a pod or a group may be."""

    ACTIVE = auto()
    BACKOFF = auto()
    UNSCHEDULABLE = auto()
    OUT = auto()  # being looked at, or no longer of interest


@dataclass(eq=False)
class QueuedPod:
    """A pod with its history in the queue. Upstream: `QueuedPodInfo`.

    since     when it was created or last tried
    attempts  how often it was looked at
    plugins   the names of the plugins that turned it down last
    """

    pod: PodInfo
    since: float
    attempts: int = 0
    plugins: frozenset[str] = frozenset()
    entity: Entity = field(init=False)


@dataclass(eq=False)
class Entity:
    """A pod, or all pods of a group that wait: they are looked at together. Upstream: `QueuedEntityInfo`.

    members     the pods, in the order in which they are looked at
    group       "namespace/name" of the group, "" for a pod without one
    since       when it was created or last tried
    parked      when it came to the unschedulable ones
    rejections  how often plugins have turned it down
    errors      how often in a row something went wrong instead
    is_gated    whether plugins hold it back before it is looked at
    """

    members: list[QueuedPod]
    group: str
    since: float
    parked: float = 0.0
    rejections: int = 0
    errors: int = 0
    is_gated: bool = False
    place: Place = Place.OUT
    ticket: int = 0  # of its newest entry in a heap; older ones are passed over

    @property
    def backoff_ends(self) -> float:
        """Return the time at which the pause after the last attempt ends. That of large groups may be longer."""
        count = self.errors or self.rejections
        longest = LONGEST_BACKOFF * math.sqrt(len(self.members))
        return self.since + min(FIRST_BACKOFF * 2 ** (count - 1), longest) if count else 0.0

    @property
    def has_failed(self) -> bool:
        """Report whether something went wrong with it last. A group always counts so after an attempt."""
        return bool(self.group) or not self.members[0].plugins

    def add(self, member: QueuedPod) -> None:
        """Take in a pod. Upstream: `PodGroupMemberPodsOrderingFunc`."""
        member.entity = self
        self.members.append(member)
        self.members.sort(key=lambda m: (-m.pod.priority, -m.attempts, m.since, m.pod.name))
