"""Requests that come one by one, while the server does nothing else: most of those that a test sends.

Nobody sees the place of such a request in a queue, since it is in nobody's way. So what it was is only noted here, and
told to queues and metrics before anything looks at them or changes them. That costs a third of what places do.
"""

from __future__ import annotations

from bisect import bisect_left

from understudy.apiserver.flowcontrol.classification import Classification
from understudy.apiserver.flowcontrol.fairqueuing.levels import PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.flows import REGULAR, SECONDS
from understudy.apiserver.server.filters.limits.watermark import Watermark


class Lane:
    """The requests of a classification that read, or those that write.

    executing  counts what is executed of either kind
    began      when the last one that was alone began, and `ended` when it ended
    """

    __slots__ = ("began", "classification", "counts", "ended", "executing", "flow", "level", "queues", "seconds")

    def __init__(self, classification: Classification, level: PriorityLevel, executing: Watermark) -> None:
        self.classification = classification
        self.flow = classification.flow
        self.level = level
        self.queues = level.queues
        self.executing = executing
        self.began = self.ended = self.seconds = 0.0
        self.counts = [0] * (len(SECONDS) + 1)

    def end(self, began: float, ended: float) -> None:
        """Note a request that was alone and took one seat."""
        seconds = ended - began
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.seconds += seconds
        self.began, self.ended = began, ended

    def tell(self) -> None:
        """Tell queues and metrics of the requests that were alone since the last time, all in one second."""
        number = sum(self.counts)
        self.queues.add_lone(number, self.seconds, self.ended - self.began)
        self.executing.add_lone(self.seconds, self.began)
        flow = self.flow
        flow.dispatched += number
        flow.seats[1] += number
        durations = flow.executions[REGULAR]
        durations.counts = [sum(pair) for pair in zip(durations.counts, self.counts, strict=True)]
        durations.sum += self.seconds
        if not self.level.is_exempt:
            flow.waits[True].counts[0] += number
            flow.queue_lengths[1] += number
        self.counts = [0] * len(self.counts)
        self.seconds = 0.0


class Lanes(dict[Classification, Lane]):
    """The lanes of the requests that read, or of those that write, by their classification."""

    def __init__(self, levels: PriorityLevels, executing: Watermark) -> None:
        super().__init__()
        self._levels = levels
        self._executing = executing

    def __missing__(self, classification: Classification) -> Lane:
        level = self._levels.by_name[classification.flow.level]
        lane = self[classification] = Lane(classification, level, self._executing)
        return lane
