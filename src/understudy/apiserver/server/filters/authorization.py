"""Refuses what a user may not do. Upstream: `WithAuthorization`."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.authorization.authorizer import Authorizer
from understudy.apiserver.authorization.forbidden import forbidden
from understudy.apiserver.endpoints.request import Request


def with_authorization(authorizer: Authorizer) -> Callable[[Request], None]:
    """Return the filter that asks the authorizer about each request. It raises 403 for what is not allowed."""

    def authorize(request: Request) -> None:
        allowed, reason = authorizer.authorize(request.user, request.info)
        if not allowed:
            raise forbidden(request.user, request.info, reason)

    return authorize
