"""Finds out who sends a request. Upstream: `WithAuthentication`."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.authenticator import NOBODY, Authenticator
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.permissions.audit.latencies import AUTHENTICATION, Latencies
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates

if TYPE_CHECKING:
    from understudy.apiserver.server.filters.audit.filter import Auditor


def with_authentication(
    authenticator: Authenticator, auditor: Auditor | None, gates: Gates, metrics: AuthenticationMetrics
) -> Callable[[Request], None]:
    """Return the filter that sets `request.user` and `request.user_headers`.

    It raises 401 for credentials that are not valid.

    Clients that are nobody cannot keep connections of HTTP/2, unless a gate (`UnauthenticatedHTTP2DOSMitigation`) is
    off.

    auditor  logs requests that are refused, if there is one
    metrics  count the requests by their users
    """

    def authenticate(request: Request) -> None:
        begun, latencies = monotonic(), None if auditor is None else Latencies(request.release)
        request.latencies, request.user_headers = latencies, authenticator.user_headers
        try:
            request.user = authenticator.authenticate(
                request.headers, request.warnings, request.path, request.certificates
            )
        except StatusError:
            metrics.fail(shown=bool(request.headers.get("Authorization") or request.certificates))
            request.is_last = gates[features.UNAUTHENTICATED_HTTP2_DOS_MITIGATION]
            if auditor is not None:
                auditor.refuse(request)
            raise
        metrics.succeed(request.user.name)
        if request.user is NOBODY:
            request.is_last = gates[features.UNAUTHENTICATED_HTTP2_DOS_MITIGATION]
        if latencies is not None:
            latencies.since(AUTHENTICATION, begun)

    return authenticate
