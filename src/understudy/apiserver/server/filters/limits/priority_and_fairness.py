"""Tells each client which flow schema and priority level its request matches. Upstream: `WithPriorityAndFairness`.

https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.flowcontrol.classification import FlowControl


def with_priority_and_fairness(flow_control: FlowControl) -> Callable[[Request], None]:
    """Return the filter that adds the uids to the answer. Of long-running requests only watches are classified."""

    def classify(request: Request) -> None:
        info = request.info
        if not info.long_running or info.verb == "watch":
            classification = flow_control.classify(request.user, info)
            classification.flow.dispatched += 1
            request.response_headers = classification.headers

    return classify
