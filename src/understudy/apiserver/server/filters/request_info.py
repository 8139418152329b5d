"""Reads from a request what it asks for. Upstream: `WithRequestInfo`."""

from __future__ import annotations

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import request_info


def with_request_info(request: Request) -> None:
    """Set `request.info`. Raises RequestInfoError for a path that says `watch` or `proxy`, but not of what."""
    request.info = request_info(request.method, request.path, request.query)
