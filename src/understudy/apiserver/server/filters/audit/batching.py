"""The modes of the backends of the audit log, and the options that all of them have. Upstream: `AuditBatchOptions`."""

from __future__ import annotations

from understudy.machinery.types import NamedTuple

BATCH, BLOCKING, BLOCKING_STRICT = MODES = ("batch", "blocking", "blocking-strict")


class Batching(NamedTuple):
    """Says how events are gathered before they are written. Upstream: `BatchConfig`.

    buffer_size  events that may wait
    max_size     events that are written at once
    max_wait     seconds that the first of them waits for more
    per_second, burst
                 how often batches are written; None for no limit
    """

    buffer_size: int
    max_size: int
    max_wait: float
    per_second: float | None
    burst: int


class BackendOptions(NamedTuple):
    """The options that all backends have.

    largest_event  bytes above which an event loses its objects; None for any size
    """

    mode: str
    batching: Batching
    largest_event: int | None
