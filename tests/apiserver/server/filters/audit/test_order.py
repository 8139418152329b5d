"""The order in which a plugin gets events that answers wait for, if it takes several at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from understudy.apiserver.permissions.audit.event import NotedEvent
from understudy.apiserver.permissions.audit.metrics import AuditMetrics
from understudy.apiserver.permissions.audit.policy import Level, RequestAudit
from understudy.apiserver.server.filters.audit.backends import backend_of
from understudy.apiserver.server.filters.audit.batching import BLOCKING, BackendOptions, Batching
from understudy.machinery.types import Obj


class SlowAtFirst:
    """A plugin that has not written the first event of a request before another request's, or a while, is over."""

    name = "slow"

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        self.goes_on = threading.Event()

    def process(self, events: Sequence[Obj]) -> None:
        """Note events."""
        for event in events:
            if event["stage"] == "RequestReceived":
                self.goes_on.wait(30)
            self.written.append((event["auditID"], event["stage"]))
            if event["auditID"] == "other":
                self.goes_on.wait(0.2)  # time for a later event that does not wait for the first one
                self.goes_on.set()

    def close(self) -> None:
        """Do nothing."""


def test_events_of_a_request_keep_their_order() -> None:
    """Each event of a request is written after the one before; other requests do not wait for them."""
    plugin = SlowAtFirst()
    backend = backend_of(
        plugin, BackendOptions(BLOCKING, Batching(1, 1, 0, None, 0), None), AuditMetrics().report, at_once=True
    )
    audit = RequestAudit(Level.METADATA, frozenset(), False)

    def put(audit_id: str, stage: str) -> Any:
        return backend.put(NotedEvent({"auditID": audit_id, "stage": stage}, audit, b"", None, "", lambda answer: None))

    waiting = [put("one", "RequestReceived"), put("one", "ResponseStarted"), put("one", "ResponseComplete")]
    waiting.append(put("other", "ResponseComplete"))
    assert [future.result(30) for future in waiting] == [True] * 4
    backend.close()
    stages = ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    assert plugin.written == [("other", "ResponseComplete"), *(("one", stage) for stage in stages)]
