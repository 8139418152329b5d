"""Finds out who sends a request. Upstream: `WithAuthentication`."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.endpoints.request import Request


def with_authentication(authenticator: Authenticator) -> Callable[[Request], None]:
    """Return the filter that sets `request.user`. It raises 401 for credentials that are not valid."""

    def authenticate(request: Request) -> None:
        request.user = authenticator.authenticate(request.headers, request.warnings, request.path, request.certificates)

    return authenticate
