"""Refuses what a user may not do. Upstream: `WithAuthorization`."""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.authorization.authorizer import Attributes, Authorizer
from understudy.apiserver.endpoints.request import Request
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.users import User


def with_authorization(authorizer: Authorizer) -> Callable[[Request], None]:
    """Return the filter that asks the authorizer about each request. It raises 403 for what is not allowed."""

    def authorize(request: Request) -> None:
        allowed, reason = authorizer.authorize(request.user, request.info)
        if not allowed:
            raise forbidden(request.user, request.info, reason)

    return authorize


def forbidden(user: User, attributes: Attributes, reason: str) -> StatusError:
    """Return the 403 for something that a user may not do. Upstream: `responsewriters.Forbidden`."""
    message = f"User {go_quote(user.name)} cannot {attributes.verb} {_object(attributes)}"
    for character, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        message = message.replace(character, escape)
    return errors.forbidden(
        attributes.group, attributes.resource, attributes.name, f"{message}: {reason}" if reason else message
    )


def _object(attributes: Attributes) -> str:
    if not attributes.is_resource:
        return f"path {go_quote(attributes.path)}"
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    place = f"in the namespace {go_quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"resource {go_quote(resource)} in API group {go_quote(attributes.group)} {place}"
