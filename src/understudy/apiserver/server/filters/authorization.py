"""Refuses what a user may not do. Upstream: `WithAuthorization`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.requestinfo import OF_COLLECTIONS
from understudy.apiserver.permissions.audit.latencies import AUTHORIZATION
from understudy.apiserver.permissions.log import PermissionLog
from understudy.machinery.auth.authorization import Authorizer, label_requirements
from understudy.machinery.auth.forbidden import forbidden

UNKNOWN = "internal error"  # the reason that is logged for an error


class AuthorizationError(Exception):
    """A failure to find out whether a user may do something; answered with 500 in plain text."""


def with_selectors(request: Request) -> None:
    """Set the label selector of a list, watch or deletecollection, which webhooks are told of."""
    if request.info.verb in OF_COLLECTIONS and (selector := request.query.get("labelSelector")):
        request.info = replace(request.info, label_selector=label_requirements(selector))


def with_authorization(
    authorizer: Authorizer, permissions: PermissionLog, metrics: AuthorizationMetrics
) -> Callable[[Request], None]:
    """Return the filter that asks the authorizer about each request. It raises 403 for what is not allowed,
    and AuthorizationError where that cannot be found out.

    permissions  notes what clients ask for, if that is on
    metrics      count the decisions
    """

    def authorize(request: Request) -> None:
        begun = monotonic()
        allowed, reason, _, error = decision = authorizer.authorize(request.user, request.info)
        metrics.attempt(decision)
        if request.audit is not None:
            request.audit.latencies.since(AUTHORIZATION, begun)
            is_known = allowed or not error
            if is_known:
                request.audit.annotate("authorization.k8s.io/decision", "allow" if allowed else "forbid")
            request.audit.annotate("authorization.k8s.io/reason", reason if is_known else UNKNOWN)
        if permissions.on and not request.is_internal:
            permissions.note(request.user, request.info, allowed)
        if not allowed:
            if error:
                raise AuthorizationError(error)
            raise forbidden(request.user, request.info, reason)

    return authorize
