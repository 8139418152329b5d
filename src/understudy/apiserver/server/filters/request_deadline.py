"""Checks the time that a client gives a request. Upstream: `WithRequestDeadline`."""

from __future__ import annotations

from understudy.apiserver.endpoints.request import Request
from understudy.machinery.options import check_timeout


def with_request_deadline(request: Request) -> None:
    """Check the query parameter `timeout` of a request that is not long-running. Raises 400.

    Nothing here takes as long as the shortest time that clients set: the value is read and has no effect.
    """
    if request.query and not request.info.long_running:
        check_timeout(request.query.get("timeout"))
