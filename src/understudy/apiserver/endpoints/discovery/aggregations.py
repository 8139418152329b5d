"""Counts how often discovery was aggregated. Upstream: k8s.io/apiserver/pkg/endpoints/discovery/aggregated."""

from __future__ import annotations

from collections import Counter as Counts

from understudy.machinery.util.metrics import Counter


class Aggregations:
    """Counts the documents of aggregated discovery of one server, for as long as it lives."""

    def __init__(self) -> None:
        about = "[ALPHA] Counter of number of times discovery was aggregated"
        self.counter = Counter("aggregator_discovery_aggregation_count_total", about, (), Counts({(): 0}))
        self._etags: dict[str, str] = {}  # by path

    def note(self, path: str, etag: str) -> None:
        """Count a document that was asked for, unless it is the one that was asked for last."""
        if self._etags.get(path) != etag:
            self._etags[path] = etag
            self.counter.add()
