"""Refuses what a user may not do. Upstream: `WithAuthorization`."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.permissions.audit.latencies import AUTHORIZATION
from understudy.apiserver.permissions.log import PermissionLog
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.forbidden import forbidden


def with_authorization(authorizer: Authorizer, permissions: PermissionLog) -> Callable[[Request], None]:
    """Return the filter that asks the authorizer about each request. It raises 403 for what is not allowed.

    permissions  notes what clients ask for, if that is on
    """

    def authorize(request: Request) -> None:
        begun = monotonic()
        allowed, reason = authorizer.authorize(request.user, request.info)
        if request.audit is not None:
            request.audit.latencies.since(AUTHORIZATION, begun)
            request.audit.annotate("authorization.k8s.io/decision", "allow" if allowed else "forbid")
            request.audit.annotate("authorization.k8s.io/reason", reason)
        if permissions.on and not request.is_internal:
            permissions.note(request.user, request.info, allowed)
        if not allowed:
            raise forbidden(request.user, request.info, reason)

    return authorize
